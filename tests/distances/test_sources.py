"""Every source by its name, in losses and on the command line."""

import csv
import json
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from command_line import run
from softkin import SoftkinError, distances, predictions, similarity, smoothing
from softkin._io.matrices import MatrixFiles
from softkin.distances import ClassNames
from softkin.losses import ClassSimilarityLoss

NAMES = ["cat", "dog", "car", "truck", "rose"]


def random_distances(k, seed=0):
    x = torch.randn(k, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.cdist(x, x)


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
        words = r"alpha=0.07 is what .*s.safetensors suggests; pass `alpha` for another."
        said = pytest.warns(UserWarning, match=words) if name == "s" else nullcontext()
        with said:
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
    with pytest.raises(SoftkinError, match=r"w.npy must hold weights \(3, d\)"):
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


@pytest.mark.slow
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
        capsys, "compare", "--data", "digits", "--tune", "none", *few, "--validation", 100, "--test", 100, "--methods", "one-hot,tree,file", "--seeds", 1,
        "--tree", tmp_path / "t.json", "--matrix", tmp_path / "s.safetensors", "--output", tmp_path / "study", "--json", "--workers", 1,
    )  # fmt: skip
    assert code == 0, errors
    assert [row["method"] for row in json.loads(output)["rows"]] == ["one-hot", "tree", "file"]
    (tmp_path / "study.toml").write_text('methods = ["enc"]\n[sources]\nencoder = "os:system"\n')
    code, _, errors = run(capsys, "compare", "--config", tmp_path / "study.toml", "--output", tmp_path / "other")
    assert code != 0
    assert "must not name 'encoder', as a file must not name code to run" in errors
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(("name", "p"), [("l1", 1), ("l2", 2)])
@pytest.mark.parametrize("kind", ["images", "features"])
def test_mean_distances_are_in_the_norm_of_their_name(name, p, kind):
    x = np.array([[0.0, 0.0], [3.0, 4.0], [1.0, 1.0]])
    labels = np.array([0, 1, 1])
    data = SimpleNamespace(kind=kind, values=x, labels=labels, class_names=["a", "b"])
    measured = distances.measure(name, data)
    expected = np.mean([np.linalg.norm(x[0] - other, ord=p) for other in x[1:]])
    assert float(measured.matrix[0, 1]) == pytest.approx(expected)
    assert measured.how == f"mean L{p}, all pairs"
