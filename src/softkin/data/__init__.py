"""Labelled data from local files or downloads, decoded once and memory-mapped from then on."""

from softkin.data.catalogue import get, names
from softkin.data.distribution import out_of_distribution
from softkin.data.labelled import Labelled, Samples
from softkin.data.loading import load
from softkin.data.splits import Split, split
from softkin.names import DIGITS

__all__ = ["DIGITS", "Labelled", "Samples", "Split", "get", "load", "names", "out_of_distribution", "split"]
