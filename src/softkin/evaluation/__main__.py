"""A worker process that sums files for its parent: ``python -P -m softkin.evaluation``."""

from softkin.evaluation.shards import main

main()
