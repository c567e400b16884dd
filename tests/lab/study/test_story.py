"""The story of a study: on recorded studies as a person would tell it, and never against the marks of the table."""

import re
from dataclasses import replace

import pytest

from results_records import EXPECTED, RECORDS, WITHOUT_PLAIN, recorded
from softkin.lab.study import columns, story
from softkin.lab.study.story import told
from softkin.lab.study.tabulation import Cell, Row, judged
from softkin.metrics.measurement import Measured


@pytest.mark.parametrize("study", EXPECTED)
def test_a_recorded_study_is_told_as_a_person_would(study):
    kind, repair, worth, use = EXPECTED[study]
    said = told(recorded(study))
    assert len(said) <= 5
    assert {"over": "over-confident by", "under": "under-confident by", "fine": "as it should"}[kind] in said[0]
    opening = {
        "-": "There is nothing for a calibrator",
        "no": "No calibrator is seen to repair it",
        "add": "A calibrator may",
    }
    nothing = f"There is no gap to repair, but without training again {repair} gains: Hist P"
    repairs = nothing if kind == "fine" else f"Without training again, {repair} repairs it"
    assert said[1].startswith(opening.get(repair, repairs))
    if worth is not None:
        assert said[2].startswith(f"Training differently is {'' if worth else 'not shown to be '}worth it")
    used = next(sentence for sentence in said if sentence.startswith("Use "))
    assert used.removeprefix("Use ").startswith("one-hot training" if use == "one-hot" else f"{use}, ")


def test_every_recorded_study_has_a_recommendation_that_a_person_wrote():
    studies = {path.parent.name for path in RECORDS.glob("*/table.json")}
    assert studies == EXPECTED.keys() | WITHOUT_PLAIN
    for study in WITHOUT_PLAIN:
        assert "one-hot" not in {row.method for row in recorded(study)}
        assert "has the lowest NLL" in told(recorded(study))[0]


def test_a_calibrator_that_is_the_best_itself_is_not_called_level_with_it():
    said = " ".join(told(recorded("fair-cifar100-20")))
    assert "but Dir-ODIR without training again is better still." in said
    assert "cannot be told from the best" not in said


@pytest.mark.parametrize("study", sorted(path.parent.name for path in RECORDS.glob("*/table.json")))
def test_no_sentence_contradicts_the_table_or_names_what_cannot_run(study):
    rows = {row.title: row for row in recorded(study)}
    said = told(list(rows.values()))
    assert 1 <= len(said) <= 5
    text = " ".join(said)
    assert "may be chance" not in text
    for title in re.findall(r"Use (\S+),", text):
        assert columns.check(title.lower()) == rows[title].method
    for sentence in said:
        if told_apart := re.search(r"but (\S+) cannot be told from the best", sentence):
            nll = rows[told_apart[1]].cells["nll"]
            assert nll.tie or nll.best
        if repaired := re.match(r"Without training again, (\S+) repairs it: Hist P ([\d.]+) → ([\d.]+) %", sentence):
            cells, plain = rows[repaired[1]].cells, rows["one-hot"].cells
            assert f"{100 * plain['ece_hist'].value:.1f}" == repaired[2]
            assert f"{100 * cells['ece_hist'].value:.1f}" == repaired[3]
            assert cells["ece_hist"].against["one-hot"].proved or cells["nll"].against["one-hot"].proved
        if better := re.match(r"Training differently is worth it: (\S+) changes NLL against (\S+) by", sentence):
            difference = rows[better[1]].cells["nll"].against[rows[better[2]].method]
            assert difference.proved
            assert difference.value < 0
        if level := re.match(r"(.*) cannot be told from (\S+) in NLL", sentence):
            assert rows[level[2]].cells["nll"].best
            for title in re.sub(r" and \d+ more", "", level[1]).replace(" and ", ", ").split(", "):
                assert rows[title].cells["nll"].tie


PATTERN = [value / 10**0.5 * 2 for value in (-2, -1, 0, 1, 2)]  # mean 0, standard deviation 1


def row(method, hist, nll, accuracy, *, gap=0.0, n=5, noise=0.001, shift=0, cost=None, chance=0.01):
    """A row whose numbers have this deviation over seeds, in a pattern that ``shift`` moves from seed to seed."""

    def cell(mean, calibrated=None):
        values = tuple(mean + noise * PATTERN[(seed + shift) % 5] for seed in range(n))
        own = None if calibrated is None else Measured(calibrated)
        return Cell(mean, std=noise if n > 1 else None, n=n, values=values, when_calibrated=own)

    cells = {"ece_hist": cell(hist, chance), "nll": cell(nll), "accuracy": cell(accuracy), "signed_gap": cell(gap)}
    return Row(method, columns.title(method), cells, cost=cost)


def test_the_five_sentences():
    said = told(
        judged(
            [
                row("one-hot", 0.116, 1.70, 0.577, gap=0.11),
                row("ts", 0.014, 1.63, 0.577, shift=1),
                row("uniform", 0.014, 1.52, 0.577, shift=2),
                row("uniform+ts", 0.014, 1.53, 0.577, shift=3),
            ]
        )
    )
    assert said[:2] == (
        "One-hot training claims 68.7 % and is right in 57.7 %, so it is over-confident by 11.0 points; Hist P is 11.6 %, "
        "where perfect calibration would show 1.0 %.",
        "Without training again, TS repairs it: Hist P 11.6 → 1.4 %, NLL 1.700 → 1.630, accuracy unchanged.",
    )
    assert re.fullmatch(
        r"Training differently is worth it: uniform changes NLL against TS by −0\.110 nats \(−0\.11\d to −0\.10\d\)\.",
        said[2],
    )
    assert said[3] == "Use uniform, Hist P 1.4 %, accuracy 57.7 %, NLL 1.520; it costs another training."
    assert len(said) == 4  # nothing is left to decide


def test_another_training_must_gain_enough():
    def rows(nll):
        return judged(
            [row("one-hot", 0.1, 1.0, 0.8, gap=0.1), row("ts", 0.01, 0.9, 0.8, shift=1), row("l2", 0.01, nll, 0.8)]
        )

    assert story.choose(rows(0.87)).method == "l2"
    assert story.choose(rows(0.889)).method == "ts"
    assert "which is too little" in told(rows(0.889))[2]
    assert "+0.100 nats" in told(rows(1.0))[2]


def test_several_networks_have_their_price():
    cost = {"passes": 5, "memory": 5.0, "networks": 5}
    rows = [row("one-hot", 0.1, 1.0, 0.8, gap=0.1), row("ts", 0.01, 0.9, 0.8, shift=1)]
    said = told(judged([*rows, row("ensemble", 0.01, 0.7, 0.85, cost=cost, shift=2)]))
    assert said[3].endswith("it costs 5 trainings, 5 passes a prediction, 5 times the memory.")
    said = told(judged([*rows, row("ensemble+ts", 0.01, 0.7, 0.85, cost=cost, shift=2)]))
    assert said[3].endswith("5 times the memory, and validation rows for the calibrator.")


def test_infinite_losses_are_repaired_and_do_not_lead():
    endless = row("one-hot", 0.1, 1.0, 0.8, gap=0.1)
    endless = replace(endless, cells={**endless.cells, "nll": Cell(float("inf"), n=5, values=(float("inf"),) * 5)})
    said = told(judged([endless, row("ts", 0.01, 1.0, 0.8, shift=1)]))
    assert said[1] == "Without training again, TS repairs it: Hist P 10.0 → 1.0 %, NLL ∞ → 1.000, accuracy unchanged."


def test_a_gap_within_chance_is_no_over_confidence():
    rows = judged([row("one-hot", 0.06, 1.0, 0.8, gap=0.03), row("ts", 0.06, 1.0, 0.8, shift=1)])
    assert "over-confident by 3.0 points" in told(rows)[0]
    assert "a gap no larger than sampling noise explains" in told(rows, gap_error=0.02)[0]


def test_one_seed_says_that_training_is_not_in_it():
    said = told(judged([row("one-hot", 0.1, 1.0, 0.8, gap=0.1, n=1), row("ts", 0.01, 0.9, 0.8, n=1)]))
    assert said[-1].startswith("One seed shows nothing of the chance of training")


def test_nothing_is_told_of_a_single_method_or_without_a_verdict():
    assert told([]) == ()
    assert told(judged([row("one-hot", 0.1, 1.0, 0.8)])) == ()
    assert told([row("one-hot", 0.1, 1.0, 0.8), row("ts", 0.1, 1.0, 0.8)]) == ()


def test_more_seeds_or_more_rows():
    rows = judged([row("uniform", 0.02, 1.0, 0.8, noise=0.1), row("mixup", 0.02, 1.1, 0.8, noise=0.1, shift=2)])
    assert re.search(r"mixup cannot be told from uniform in NLL: about \d+ seeds", told(rows)[1])
    difference = rows[1].cells["nll"].against["best"]
    cells = {**rows[1].cells, "nll": replace(rows[1].cells["nll"], against={"best": replace(difference, by_rows=0.9)})}
    assert "more test rows would decide it" in told([rows[0], replace(rows[1], cells=cells)])[1]


def test_two_seeds_ask_for_more():
    rows = judged([row("uniform", 0.02, 1.0, 0.8, n=2), row("mixup", 0.02, 1.1, 0.8, noise=0.1, n=2)])
    assert told(rows)[1] == (
        "mixup cannot be told from uniform in NLL: two seeds hardly show the chance of training, so train three or more."
    )


def test_a_head_needs_no_similar_classes_if_it_does_as_well_without():
    plain = row("one-hot", 0.1, 1.70, 0.555, gap=0.1)
    with_kin, without = row("kin-head", 0.02, 1.621, 0.5551, shift=1), row("head", 0.02, 1.622, 0.555, shift=2)
    rows = judged([plain, with_kin, without])
    assert story.choose(rows).method == "head"
    assert "accuracy unchanged" in told(rows)[1]
    assert "accuracy still 55.5 %" in told(judged([plain, with_kin]))[1]
    better = row("kin-head", 0.02, 1.5, 0.555, shift=1)
    assert story.choose(judged([plain, better, without])).method == "kin-head"


def test_what_no_study_of_so_few_seeds_could_have_seen():
    assert story.would(0.012, "ece_hist") == " (would have seen ≥ 1.2 points)"
    assert story.would(1.264, "ece_hist") == " (too few seeds to see any)"
    assert story.would(1.264, "nll") == " (would have seen ≥ 1.264 nats)"
    assert story.would(float("inf"), "nll") == ""


def test_an_interval_that_excludes_0_is_of_one_pair_where_the_correction_finds_no_difference():
    said = told(recorded("fair-scratch", without=["ensemble+ts"]))[2]
    assert said == (
        "Training differently is not shown to be worth it: mixup+TS, the best of those, changes NLL against TS by "
        "−0.066 nats (−0.103 to −0.028 as the only comparison); among 19 methods that is no more than sampling noise "
        "explains (p = 0.061, corrected; would have seen ≥ 0.083 nats)."
    )


@pytest.mark.parametrize("study", sorted(path.parent.name for path in RECORDS.glob("*/table.json")))
def test_no_interval_contradicts_its_verdict(study):
    ends = re.search(r"NLL against \S+ by \S+ nats \((\S+) to ([−+\d.]+)(.*)", " ".join(told(recorded(study))))
    if ends is None:
        return
    low, high = (float(end.replace("−", "-")) for end in ends.groups()[:2])
    found = "no difference found" not in ends[3].split(".")[0]
    if 0 not in (low, high):  # 0.0003 is printed as 0.000
        assert found == (low > 0 or high < 0)


def test_of_equal_methods_the_one_without_a_measured_similarity_is_chosen():
    rows = [
        row("one-hot", 0.1, 1.0, 0.8, gap=0.1),
        row("ts", 0.01, 0.9, 0.8, shift=1),
        row("learned-we+ts", 0.01, 0.8499, 0.8),
        row("learned+ts", 0.01, 0.85, 0.8),
    ]
    assert story.choose(judged(rows)).method == "learned+ts"


@pytest.mark.parametrize(("networks", "chosen"), [(1, "l2"), (5, "sms")])
def test_several_networks_must_gain_more_on_a_calibrator_than_one(networks, chosen):
    """TS has 0.9, a richer calibrator 0.88: 0.01 nats below that are enough for one network, and not for five."""
    cost = {"passes": networks, "memory": float(networks), "networks": networks}
    rows = [
        row("one-hot", 0.1, 1.0, 0.8, gap=0.1),
        row("ts", 0.01, 0.9, 0.8, shift=1),
        row("sms", 0.01, 0.88, 0.8, shift=2),
        row("l2", 0.01, 0.87, 0.8, cost=cost, shift=3),
    ]
    assert story.choose(judged(rows)).method == chosen


def named_only(method, *cells, betas=(0.0, 0.0, 0.0, 0.2, 0.1), **options):
    """A row of class similarity whose β of "auto" came out as these, seed by seed."""
    made = row(method, *cells, **options)
    values = tuple({"alpha": 0.1, "beta": "auto"} for _ in betas)
    return replace(made, chosen=values, settled=tuple({"beta": beta} for beta in betas))


def beside(*rows):
    return judged([row("one-hot", 0.1, 1.0, 0.8, gap=0.1), row("ts", 0.01, 0.9, 0.8, shift=1), *rows])


def test_smoothing_with_beta_0_is_not_recommended_as_class_similarity():
    rows = beside(row("uniform", 0.01, 0.8509, 0.8, shift=2), named_only("we", 0.01, 0.84, 0.8))
    assert story.choose(rows).method == "uniform"
    said = told(rows)
    assert any(sentence.startswith("Use uniform, ") for sentence in said)
    assert said[-1] == (
        "‡ WE is class similarity in name only: its β is 0 on 3 of 5 seeds, so that all wrong classes get the same "
        "share, as in uniform smoothing."
    )
    similar = beside(
        row("uniform", 0.01, 0.8509, 0.8, shift=2), named_only("we", 0.01, 0.84, 0.8, betas=(0.0, 1, 1, 1, 1))
    )
    assert story.choose(similar).method == "we"
    assert "‡" not in " ".join(told(similar))


def test_without_uniform_smoothing_beside_it_the_name_says_what_was_trained():
    rows = beside(named_only("we", 0.01, 0.84, 0.8, betas=(0.0,) * 5), named_only("we+ts", 0.01, 0.85, 0.8))
    said = told(rows)
    assert any(sentence.startswith("Use uniform smoothing (trained here as WE), Hist P") for sentence in said)
    assert said[-1] == (
        "‡ WE and WE+TS are class similarity in name only: their β is 0 on at least 3 of 5 seeds, so that all wrong "
        "classes get the same share, as in uniform smoothing."
    )


def test_learned_labels_whose_prior_is_uniform_are_not_chosen_for_their_prior():
    rows = beside(row("learned+ts", 0.01, 0.8509, 0.8), named_only("learned-we+ts", 0.01, 0.84, 0.8, betas=(0.0,) * 5))
    assert story.choose(rows).method == "learned+ts"
    assert told(rows)[-1].endswith("on all 5 seeds, so that all wrong classes get the same share in their prior.")


def test_a_similarity_from_a_file_has_its_own_beta():
    made = named_only("file", 0.01, 0.84, 0.8)
    values = tuple({"alpha": 0.1, "beta": 0.0} for _ in range(5))
    assert (
        story.choose(beside(row("uniform", 0.01, 0.8509, 0.8), replace(made, chosen=values, settled=()))).method
        == "file"
    )
