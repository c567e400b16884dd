"""Labelled data from local files or downloads, decoded once and memory-mapped from then on."""

from softkin._core.names import DIGITS
from softkin.lab.data.labelled import Labelled, Samples
from softkin.lab.data.loading import load
from softkin.lab.data.ood import out_of_distribution
from softkin.lab.data.published import get, names
from softkin.lab.data.splits import Split, split

__all__ = ["DIGITS", "Labelled", "Samples", "Split", "get", "load", "names", "out_of_distribution", "split"]
