"""A process that sums up files for another one: ``python -P -m softkin.evaluation``."""

from softkin.evaluation.sets import main

main()
