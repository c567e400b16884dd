"""Hashed words against a plain count."""

import numpy as np

from softkin.lab.data import labelled_tables


def test_hashed_words_against_a_plain_count():
    import zlib

    texts = ["Set an alarm, an ALARM!", "", "naïve café’s " * 300]
    expected = np.zeros((3, 4096), dtype=int)
    for row, words in enumerate([["set", "an", "alarm", "an", "alarm"], [], ["naïve", "café's"] * 300]):
        for word in words:
            expected[row, zlib.crc32(word.encode()) % 4096] += 1
    assert np.array_equal(labelled_tables.counts(texts), expected.clip(max=255))
    assert labelled_tables.counts(texts)[2].max() == 255
