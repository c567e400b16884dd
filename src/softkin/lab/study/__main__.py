import sys

from softkin.lab.study.worker import main

sys.exit(main())
