"""The audition: sources judged by what is really confused."""

import csv
import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import spearmanr

from command_line import run
from places import EXAMPLES
from softkin import audition, distances, predictions, similarity
from softkin.losses import ClassSimilarityLoss

CIFAR = EXAMPLES / "cifar100.txt"


def asymmetric(k, seed):
    return torch.rand(k, k, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).fill_diagonal_(0)


def entropy_of_rows(D, C, beta):
    """By the definition: (K,) cross-entropies."""
    S = similarity.from_distances(D, beta, asymmetric=True)
    return np.array(
        [-sum(float(C[k, j]) * math.log(float(S[k, j])) for j in range(len(D)) if j != k) for k in range(len(D))]
    )


@pytest.fixture(scope="module")
def judged():
    D = {"right": asymmetric(14, 0), "other": asymmetric(14, 1)}
    noise = similarity.from_distances(asymmetric(14, 2), 1.0, asymmetric=True)
    C = 0.6 * similarity.from_distances(D["right"], 1.5, asymmetric=True) + 0.4 * noise
    return D, C, audition.audition(D, audition.Confusions(C, "a toy"), folds=7, permutations=50)


def _as_outputs(C):
    """Outputs whose mean wrong probabilities are the rows of C."""
    return 0.5 * torch.eye(len(C), dtype=torch.float64) + 0.5 * C, torch.arange(len(C))


def test_rank_correlation_and_overlap_by_brute_force(judged):
    D, C, result = judged
    for name in D:
        candidate = next(candidate for candidate in result.candidates if candidate.name == name)
        ranks, tops = [], []
        for k in range(14):
            others = [j for j in range(14) if j != k]
            s, c = -D[name][k, others].numpy(), C[k, others].numpy()
            ranks.append(spearmanr(s, c).statistic)
            tops.append(len(set(np.argsort(-s)[:5]) & set(np.argsort(-c)[:5])) / 5)
        assert candidate.rank_correlation.value == pytest.approx(np.mean(ranks), abs=1e-6)
        assert candidate.overlap.value == pytest.approx(np.mean(tops), abs=1e-6)


@given(st.lists(st.integers(0, 3), min_size=2, max_size=7), st.integers(1, 4))
def test_ties_are_broken_at_random(row, m):
    members = audition.top_membership(np.array([row], dtype=float), m)[0]
    rng = np.random.default_rng(0)
    counts = np.zeros(len(row))
    for _ in range(400):
        order = sorted(range(len(row)), key=lambda j: (-row[j], rng.random()))
        counts[order[: min(m, len(row))]] += 1
    assert members.sum() == pytest.approx(min(m, len(row)))
    np.testing.assert_allclose(members, counts / 400, atol=0.13)


def test_the_control_is_that_of_renamed_classes(judged):
    """Against sources whose classes are really renamed, at their own best β."""
    D, C, result = judged
    rng = np.random.default_rng(3)
    values, overlaps = [], []
    for _ in range(60):
        order = torch.from_numpy(rng.permutation(14))
        renamed = D["right"][order][:, order]
        for k in range(14):
            others = [j for j in range(14) if j != k]
            near, seen = np.argsort(renamed[k, others].numpy())[:5], np.argsort(-C[k, others].numpy())[:5]
            overlaps.append(len(set(near) & set(seen)) / 5)
        beta = similarity.best_beta(renamed, *_as_outputs(C))
        values.append(entropy_of_rows(renamed, C, beta).mean())
    right = next(candidate for candidate in result.candidates if candidate.name == "right")
    assert right.cross_entropy.control == pytest.approx(np.mean(values), abs=0.02)
    assert right.overlap.control == pytest.approx(np.mean(overlaps), abs=0.03)
    assert right.cross_entropy.p_value == 1 / 51
    other = next(candidate for candidate in result.candidates if candidate.name == "other")
    assert other.cross_entropy.p_value > 0.05


def test_intervals_are_of_the_bootstrap_over_classes(judged):
    right = next(candidate for candidate in judged[2].candidates if candidate.name == "right")
    rng = np.random.default_rng(9)
    draws = [right.rows[rng.integers(0, 14, 14)].mean() for _ in range(4000)]
    assert right.cross_entropy.low == pytest.approx(np.quantile(draws, 0.025), abs=0.01)
    assert right.cross_entropy.high == pytest.approx(np.quantile(draws, 0.975), abs=0.01)
    assert right.wins == 1.0


def test_a_source_that_knows_nothing_is_not_recommended():
    C = similarity.from_distances(asymmetric(20, 0), 1.0, asymmetric=True)
    result = audition.audition({"noise": asymmetric(20, 5)}, audition.Confusions(C, "a toy"))
    assert result.words[0].startswith("No source predicts these confusions clearly better than no similarity")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda D, C: audition.audition({}, C), "`sources` must hold at least one"),
        (lambda D, C: audition.audition({"mixture": D}, C), "must not be called 'mixture'"),
        (
            lambda D, C: audition.audition({"x": D[:5, :5]}, C),
            "`sources['x']` covers 5 classes but the confusions cover 12",
        ),
        (lambda D, C: audition.audition({"x": D}, audition.confusions_of_counts(torch.eye(12))), "0 of 12 have any"),
        (lambda D, C: audition.audition({"x": D}, C, folds=1), "`folds` must be at least 2"),
        (lambda D, C: audition.audition({"x": D}, C, confidence=2), "`confidence` must be between 0 and 1"),
    ],
)
def test_bad_arguments(call, words):
    D = asymmetric(12, 0)
    with pytest.raises(ValueError) as error:
        call(D, audition.Confusions(similarity.from_distances(D, 1.0, asymmetric=True), "x"))
    assert words in str(error.value)


def test_confusions_of_people_and_models():
    counts = torch.tensor([[5, 3, 1], [0, 4, 0], [2, 2, 9]])
    assert audition.confusions_of_counts(counts).shares.tolist() == [[0, 0.75, 0.25], [0, 0, 0], [0.5, 0.5, 0]]
    true = [0, 0, 0, 2, 2]
    seen = [1, 1, 2, 0, 2]
    assert audition.confusions_of_labels(true, seen, num_classes=3).shares.tolist() == [
        [0, 2 / 3, 1 / 3],
        [0, 0, 0],
        [1, 0, 0],
    ]
    P = torch.tensor([[0.8, 0.15, 0.05]] * 4)
    of_outputs = audition.confusions_of_outputs(P, [0, 0, 0, 1])
    assert of_outputs.gap == pytest.approx(0.05)
    assert of_outputs.shares[0].tolist() == pytest.approx([0, 0.75, 0.25])
    votes = np.array([[40, 8, 2], [3, 7, 0], [0, 1, 9]])
    of_votes = audition.confusions_of_votes(votes)
    assert of_votes.shares.tolist() == [[0, 0.8, pytest.approx(0.2)], [1, 0, 0], [0, 1, 0]]
    assert audition.confusions_of_votes(votes, labels=[0, 0, 2]).shares[0].tolist() == [0, 15 / 17, 2 / 17]
    with pytest.raises(ValueError, match=r"`votes` must have shape \(N, K\)"):
        audition.confusions_of_votes([1, 2])


def test_votes_of_people_on_cifar10h(capsys, tmp_path, shared_data):
    names = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    (tmp_path / "names.txt").write_text("\n".join(names))
    votes = shared_data / "human" / "cifar10h_human_softlabels.npz"
    code, output, errors = run(capsys, "similarity", "audition", tmp_path / "names.txt", "--against", votes, "--json")
    assert (code, errors) == (0, "")
    result = json.loads(output)
    assert result["against"] == "the human votes of cifar10h_human_softlabels.npz (true is what most chose)"
    assert result["candidates"][0]["cross_entropy"]["value"] < result["uniform"] - 0.2
    code, _, errors = run(capsys, "similarity", "audition", CIFAR, "--against", votes)
    assert code == 1
    assert "must hold votes for the 100 classes of SOURCE, got shape (10000, 10)" in errors


@pytest.mark.slow
def test_reference_values_on_cifar100n(capsys, tmp_path, shared_data):
    human = shared_data / "human" / "cifar100n_human_labels.npz"
    output = tmp_path / "best.safetensors"
    code, text, errors = run(
        capsys, "similarity", "audition", CIFAR, "--against", human, "--json", "--output", output,
        "--tree", shared_data / "taxonomy" / "cifar100-parent-child.csv",
        "--outputs", shared_data / "logits" / "resnet32-cifar100-logits.npz",
    )  # fmt: skip
    assert (code, errors) == (0, "")
    result = json.loads(text)
    values = {candidate["name"]: candidate["cross_entropy"]["value"] for candidate in result["candidates"]}
    assert result["uniform"] == pytest.approx(4.595, abs=5e-4)
    assert values["glove"] == pytest.approx(4.22, abs=0.005)
    assert values["taxonomy"] == pytest.approx(3.97, abs=0.005)
    assert values["minilm"] < 4.02  # the vectors that softkin ships now are better than the 4.02 of the first ones
    assert values["outputs"] < 3.73
    assert values["mixture"] < values["outputs"] - 0.05
    assert [candidate["name"] for candidate in result["candidates"]] == [
        "mixture",
        "outputs",
        "taxonomy",
        "minilm",
        "glove",
    ]
    assert all(candidate["cross_entropy"]["p_value"] < 0.01 for candidate in result["candidates"])
    names = CIFAR.read_text().split()
    with pytest.warns(UserWarning, match="alpha='auto' is what .* suggests, by the gap"):
        loss = ClassSimilarityLoss.from_file(output, names)
    saved = similarity.read(output)
    assert saved.about["audition"]["chosen"] == "mixture"
    assert "audition against the human labels of cifar100n_human_labels.npz" in saved.source
    assert loss.num_classes == 100
    assert loss.alpha == 0.02  # "auto", as people do not say how much


@pytest.mark.slow
def test_glove_and_minilm_mixed_as_in_the_reference(shared_data):
    names = CIFAR.read_text().split()
    with np.load(shared_data / "human" / "cifar100n_human_labels.npz") as file:
        confusions = audition.confusions_of_labels(file["clean_label"], file["noisy_label"], num_classes=100)
    glove, minilm = distances.from_words(names, "glove"), distances.from_words(names)
    mixed = distances.mixture([glove, minilm])
    result = audition.audition({"mixed": mixed}, confusions, permutations=19)
    assert result.candidates[0].cross_entropy.value == pytest.approx(4.01, abs=0.005)


def test_options_reach_the_sources_that_have_them(capsys, tmp_path):
    names = CIFAR.read_text().split()[:12]
    images = np.random.default_rng(0).integers(0, 255, (60, 4, 4, 3), dtype=np.uint8)
    np.savez(tmp_path / "data.npz", images=images, labels=np.arange(60) % 12, class_names=np.array(names))
    S = similarity.from_distances(distances.from_words(names), 2.0)
    P = predictions.Predictions.from_probabilities(0.8 * torch.eye(12) + 0.2 * S, torch.arange(12), class_names=names)
    P.save(tmp_path / "p.npz")
    audition_of = ("similarity", "audition", tmp_path / "data.npz", "--against", tmp_path / "p.npz")
    (tmp_path / "tree.csv").write_text("\n".join(f"thing,{name}" for name in names).replace("bed", "cradle"))
    code, output, errors = run(
        capsys, *audition_of, "--json", "--distances", "l1", "--max-per-class", "3", "--outputs", tmp_path / "p.npz",
        "--tree", tmp_path / "tree.csv", "--alias", "bed=cradle",
    )  # fmt: skip
    assert (code, errors) == (0, "")
    result = json.loads(output)
    assert result["sources"]["l1"].endswith("mean L1, at most 3 per class")
    assert set(result["sources"]) == {"minilm", "glove", "l1", "outputs", "taxonomy"}
    for options, words in (
        (["--max-per-class", "3"], "--max-per-class must be left out: it is for --distances l1 or l2."),
        (["--distances", "taxonomy"], "the distance 'taxonomy' needs --tree."),
        (["--permutations", "18"], "`--permutations` must be at least 19, got 18."),
    ):
        code, _, errors = run(capsys, *audition_of, *options)
        assert code == 2
        assert words in errors


def test_against_a_confusion_matrix_and_outputs(capsys, tmp_path):
    names = CIFAR.read_text().split()[:15]
    (tmp_path / "names.txt").write_text("\n".join(names))
    D = distances.from_words(names)
    S = similarity.from_distances(D, 2.0)
    with open(tmp_path / "c.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["confusion", *names])
        writer.writerows([name, *row] for name, row in zip(names, (1000 * S).round().tolist(), strict=True))
    code, output, errors = run(
        capsys, "similarity", "audition", tmp_path / "names.txt", "--against", tmp_path / "c.csv"
    )
    assert (code, errors) == (0, "")
    assert "Use minilm with β = 2" in output
    predictions.Predictions.from_probabilities(0.8 * torch.eye(15) + 0.2 * S, torch.arange(15), class_names=names).save(
        tmp_path / "p.npz"
    )
    distances.save(
        tmp_path / "own.safetensors", asymmetric(15, 3), class_names=names, source="noise", about={"asymmetric": True}
    )
    code, output, errors = run(
        capsys, "similarity", "audition", tmp_path / "names.txt", "--against", tmp_path / "p.npz", "--no-mixture",
        "--matrix", tmp_path / "own.safetensors", "--output", tmp_path / "best.safetensors", "--json",
    )  # fmt: skip
    assert (code, errors) == (0, "")
    result = json.loads(output)
    assert result["chosen"] == "minilm"
    assert {candidate["name"] for candidate in result["candidates"]} == {"minilm", "glove", "own"}
    assert result["alpha"] == 0.0  # the baseline is always right, so under-confident
    code, _, errors = run(
        capsys, "similarity", "audition", tmp_path / "names.txt", "--against", tmp_path / "p.npz", "--output", "x.csv"
    )
    assert code == 2
    assert "--output must end in .safetensors" in errors


def test_cross_entropy_is_cross_validated_over_classes(judged):
    D, C, result = judged
    folds = np.random.default_rng(0).permutation(14) % 7  # as the audition draws them
    for name in D:
        rows = np.empty(14)
        for fold in range(7):
            train = folds != fold
            best = minimize_scalar(
                lambda b, d=D[name], train=train: entropy_of_rows(d, C, b)[train].mean(),
                bounds=(0, 10),
                method="bounded",
                options={"xatol": 1e-6},
            ).x
            rows[~train] = entropy_of_rows(D[name], C, best)[~train]
        candidate = next(candidate for candidate in result.candidates if candidate.name == name)
        np.testing.assert_allclose(candidate.rows, rows, atol=2e-4)
        whole = similarity.best_beta(D[name], *_as_outputs(C))
        assert candidate.beta == pytest.approx(whole, abs=2e-3)
