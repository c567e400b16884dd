import sys

from softkin.study.worker import main

sys.exit(main())
