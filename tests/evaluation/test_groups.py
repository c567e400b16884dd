"""Groups of rows: simultaneous intervals, the worst group, and a test whether they differ."""

import csv
import json
import warnings
from statistics import NormalDist

import numpy as np
import pytest
import torch
from scipy import stats

from command_line import run
from softkin import SoftkinError, evaluation, metrics
from softkin.evaluation import groups
from softkin.metrics.measurement import Settings, statistics
from softkin.metrics.scopes import Claims
from softkin.predictions import Predictions

pytestmark = pytest.mark.filterwarnings("ignore::softkin._io.files.Assumption")


def pairs(rng, sizes, bend):
    """Pairs of groups; ``bend`` is by how much each group's accuracy is below its confidence."""
    s, right, names = [], [], []
    for name, (n, off) in zip("abcdefgh", zip(sizes, bend, strict=True), strict=False):
        score = rng.uniform(0.5, 1, n)
        s.append(score)
        right.append(rng.random(n) < score - off)
        names += [name] * n
    s, right = np.concatenate(s), np.concatenate(right)
    p = np.stack([1 - s, s], 1)
    return s, right, Predictions.from_probabilities(p, right.astype(int), are_pairs=True, groups=names)


def test_groups_have_the_numbers_of_their_rows():
    s, right, read = pairs(np.random.default_rng(0), (300, 200, 100), (0.0, 0.2, 0.1))
    data = groups.evaluated(read, "model", Settings(resamples=200))
    level = 1 - 0.05 / 3
    member = np.array(read.groups)
    for group in data["groups"]:
        rows = member == group["name"]
        assert group["num_samples"] == rows.sum()
        for key in ("accuracy", "signed_gap", "brier", "confidence_auroc", "ece_hist"):
            expected = getattr(metrics, key)(s[rows], right[rows], confidence=level)
            shown = group["metrics"][key]
            assert shown["value"] == pytest.approx(expected.value, abs=1e-12)
            if key != "ece_hist":
                assert (shown["low"], shown["high"]) == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert data["worst"]["signed_gap"] == "b"
    assert data["worst"]["ece_hist"] == "b"
    assert data["differ"]["signed_gap"] < 0.01
    assert "ece_hist" not in data["differ"]
    again = evaluation.evaluate_groups(Predictions(read.logits, read.labels, are_pairs=True), member, resamples=200)
    assert again["differ"] == pytest.approx(data["differ"])
    with pytest.raises(ValueError, match="the predictions have none"):
        evaluation.evaluate_groups(Predictions(read.logits, read.labels))


def test_the_test_is_cochrans():
    rng = np.random.default_rng(1)
    claims = [Claims.of(s, rng.random(len(s)) < s) for s in (rng.random(200), rng.random(400))]
    p = groups.differences([statistics(each, ["brier"], Settings()) for each in claims])["brier"]
    rows = [((each.probabilities - each.labels) ** 2)[:, 0].numpy() for each in claims]
    z = (rows[0].mean() - rows[1].mean()) / np.sqrt(sum(row.var() / len(row) for row in rows))
    assert p == pytest.approx(2 * NormalDist().cdf(-abs(z)), rel=0.1)


@pytest.mark.slow
def test_equal_groups_are_rarely_called_different_and_the_worst_interval_holds():
    """Five equal groups, 300 times: the test errs in about 5 %, and the interval of the worst group in at most that."""
    rng = np.random.default_rng(2)
    rejected = missed = 0
    for _ in range(300):
        made, ends = [], []
        for _ in range(5):
            s = rng.uniform(0.5, 1, 150)
            right = rng.random(150) < s - 0.1
            made.append(statistics(Claims.of(s, right), ["signed_gap"], Settings()))
            ends.append(metrics.signed_gap(s, right, confidence=1 - 0.05 / 5))
        rejected += groups.differences(made)["signed_gap"] <= 0.05
        worst = max(ends, key=float)
        missed += not worst.low <= 0.1 <= worst.high
    assert stats.binomtest(rejected, 300, 0.05).pvalue > 1e-3
    assert missed <= stats.binom.ppf(0.999, 300, 0.05)


def test_groups_of_classes_and_refusals(tmp_path):
    rng = np.random.default_rng(3)
    p = rng.dirichlet(np.ones(3), 90)
    y = rng.integers(0, 3, 90)
    read = Predictions.from_probabilities(p, y, groups=["10", "9", "x"] * 30)
    data = groups.evaluated(read, "site", Settings(resamples=100))
    assert [group["name"] for group in data["groups"]] == ["9", "10", "x"]
    assert data["groups"][0]["metrics"]["ece_hist_output"]["value"] > 0
    assert data["groups"][0]["threshold"]["chosen"] is None
    many = Predictions.from_probabilities(rng.dirichlet(np.ones(2), 600), torch.zeros(600, dtype=torch.int64))
    with pytest.raises(SoftkinError, match="must name groups of rows, but has 600 different values"):
        groups.evaluated(Predictions(many.logits, many.labels, groups=list(map(str, range(600)))), "id", Settings())


def test_a_file_with_groups_and_weights(tmp_path):
    rng = np.random.default_rng(4)
    path = tmp_path / "pairs.csv"
    s, w = rng.random(200).round(3), rng.random(200).round(3)
    right = rng.random(200) < s
    with path.open("w") as file:
        rows = csv.writer(file)
        rows.writerow(["model", "confidence", "correct", "w"])
        rows.writerows(zip(["a", "b"] * 100, s, right, w, strict=True))
    data = evaluation.evaluate_file(path, group="model", weight="w", resamples=100).data
    assert data["metrics"]["ece_hist"]["value"] == pytest.approx(metrics.ece_hist(s, right, sample_weight=w))
    first = data["groups"]["groups"][0]
    own = metrics.ece_hist(s[::2], right[::2], sample_weight=w[::2])
    assert first["name"] == "a"
    assert first["metrics"]["ece_hist"]["value"] == pytest.approx(own)
    own = metrics.aurc(s[::2], right[::2], sample_weight=w[::2])
    assert first["metrics"]["aurc"]["value"] == pytest.approx(own)
    assert "threshold" not in first
    with pytest.raises(SoftkinError, match=r"has no `modle` \(--group\)"):
        evaluation.evaluate_file(path, group="modle")


def test_groups_in_several_spellings_are_one(tmp_path, capsys):
    names, said = groups.united(["Rome", "rome ", "ROME", "Rome", "Oslo", "a", "A"], "site")
    assert names == ["Rome", "Rome", "Rome", "Rome", "Oslo", "a", "A"]  # single letters may be two things
    assert "`site` has 4 groups in 6 spellings, which are read as one each: " in said
    assert groups.united(["a", "b"], "site") == (["a", "b"], None)
    rows = "\n".join(f"{site},0.7,{n % 3 > 0}" for n, site in enumerate(["Rome", "rome", "Oslo"] * 30))
    (tmp_path / "pairs.csv").write_text(f"site,confidence,correct\n{rows}\n")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        code, printed, errors = run(capsys, "evaluate", tmp_path / "pairs.csv", "--group", "site", "--json")
    assert code == 0, errors
    found = json.loads(printed)["models"][0]["groups"]["groups"]
    assert {group["name"]: group["num_samples"] for group in found} == {"Oslo": 30, "rome": 60}
    assert "2 groups in 3 spellings" in errors


# Published numbers


def test_published_areas_of_five_language_models_on_five_sets(shared_data):
    folder = shared_data / "llm"
    with (folder / "mcq_published_auroc.csv").open() as file:
        published = [row for row in csv.DictReader(file) if row["published_auroc"]]
    with np.load(folder / "mcq_confidence.npz") as arrays:
        for row in published:
            key = f"{row['dataset']}|{row['model']}"
            confidence, right = arrays[f"conf|{key}"], arrays[f"grade|{key}"] == 1
            area = metrics.confidence_auroc(confidence, right, confidence=0.95)
            assert area == pytest.approx(float(row["published_auroc"]), abs=1e-5), key
            assert (area.low, area.high) == pytest.approx((float(row["low"]), float(row["high"])), abs=0.004), key
    assert len(published) == 25


ACCURACY_AND_ECE = {
    "anatomy": (0.4140, 0.1048), "clinical_knowledge": (0.4122, 0.0740), "college_computer_science": (0.2911, 0.0963),
    "computer_security": (0.5375, 0.1163), "high_school_biology": (0.4201, 0.0745), "machine_learning": (0.3266, 0.0824),
    "marketing": (0.6512, 0.1546), "professional_medicine": (0.3211, 0.0647),
}  # fmt: skip
"""LLaMA-13B on eight subjects, means over ten prompts; by plain sums in numpy"""


@pytest.mark.parametrize("subject", ACCURACY_AND_ECE)
def test_a_language_model_with_ten_prompts(shared_data, subject):
    with np.load(shared_data / "llm" / "llama13b_mmlu.npz") as arrays:
        p, y = arrays[f"{subject}|probs"], arrays[f"{subject}|targets"]
    found = np.mean([(metrics.accuracy(each, y), metrics.ece_hist(each, y)) for each in p], axis=0)
    twin = []
    for each in p.astype(float):
        top, right = each.max(1), each.argmax(1) == y
        bins = np.ceil(top * 15).astype(int)
        gaps = [abs((top - right)[bins == m].sum()) for m in range(1, 16)]
        twin.append((right.mean(), sum(gaps) / len(y)))
        pairs = metrics.ece_hist(top, right)
        assert pairs == pytest.approx(metrics.ece_hist(each, y), abs=1e-12)
    assert found == pytest.approx(np.mean(twin, axis=0), abs=1e-6)
    assert found == pytest.approx(ACCURACY_AND_ECE[subject], abs=5e-5)


def confident(seed, *, gap=0.0, groups=3, rows=200):
    """Pairs of groups whose confidences differ in distribution; the last one claims too much by ``gap`` log odds."""
    rng = np.random.default_rng(seed)
    parts = []
    for group in range(groups):
        z = rng.normal(0.5 * group, 1.5, rows)
        right = rng.random(rows) < 1 / (1 + np.exp(-0.7 * z + (gap if group == groups - 1 else 0)))
        parts.append(Claims.of(torch.from_numpy(1 / (1 + np.exp(-z))), torch.from_numpy(right)))
    return parts


def test_curves_of_groups_differ_as_a_logistic_regression_says():
    from scipy.special import chdtrc
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss

    parts = confident(0, gap=0.8)
    rows = [(part.probabilities[:, 0].numpy(), part.labels[:, 0].numpy()) for part in parts]

    def likelihood(s, hit):
        z = np.log(s / (1 - s))[:, None]
        fitted = LogisticRegression(C=1e12, tol=1e-12, max_iter=1000).fit(z, hit)
        return -len(s) * log_loss(hit, fitted.predict_proba(z)[:, 1])

    ratio = 2 * (sum(likelihood(*row) for row in rows) - likelihood(*map(np.concatenate, zip(*rows, strict=True))))
    assert groups.curves_differ(parts) == pytest.approx(chdtrc(4, ratio), rel=1e-4)
    assert groups.curves_differ([parts[0], parts[1].take(torch.arange(3))]) is None  # too few to say


@pytest.mark.slow
def test_curves_that_are_equal_are_rarely_called_different():
    called = [groups.curves_differ(confident(seed)) <= 0.05 for seed in range(300)]
    assert sum(called) <= 25  # 5 % expected; the groups' confidences differ, and so do their calibration errors
    found = [groups.curves_differ(confident(seed, gap=0.8)) <= 0.05 for seed in range(50)]
    assert sum(found) >= 40


def test_the_threshold_of_a_group_keeps_what_is_asked_and_shows_what_is_seen():
    _, _, rows = pairs(np.random.default_rng(0), (60, 2000), (0.1, 0.0))
    small, large = groups.evaluate_groups(rows, resamples=100, risk=0.2, certainty=0.9)["groups"]
    assert small["threshold"]["chosen"] is None
    assert large["threshold"]["chosen"] is not None
    assert (large["threshold"]["risk"], large["threshold"]["confidence"]) == (0.2, 0.9)
    for group in (small, large):
        seen = group["threshold"]["observed"]
        assert seen is None or seen["risk"] <= 0.2
    assert large["threshold"]["observed"]["answered"] >= large["threshold"]["chosen"]["answered"]


def test_a_narrow_terminal_keeps_the_gap_of_each_group(tmp_path, capsys, monkeypatch):
    s, right, rows = pairs(np.random.default_rng(0), (300, 300), (0.1, 0.0))
    lines = [f"{a:.4f},{int(b)},{name}" for a, b, name in zip(s, right, rows.groups, strict=True)]
    (tmp_path / "pairs.csv").write_text("confidence,correct,site\n" + "\n".join(lines) + "\n")
    monkeypatch.setenv("COLUMNS", "80")
    code, output, _ = run(capsys, "evaluate", tmp_path / "pairs.csv", "--group", "site", "--resamples", 100)
    head = next(line for line in output.splitlines() if line.startswith("site "))
    assert (code, len(head) <= 80) == (0, True)
    assert " gap " in head
