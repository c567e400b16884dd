"""``softkin decide``: what it prints, what it writes, and that it says what the library says."""

import csv
import json
import re

import numpy as np
import pytest
import torch

from command_line import run
from places import EXAMPLES
from softkin import decisions, distances, predictions

VALIDATION, TEST = EXAMPLES / "digits-validation.npz", EXAMPLES / "digits-test.npz"


@pytest.fixture(scope="module")
def rows():
    return predictions.load(VALIDATION), predictions.load(TEST)


def test_fit_and_apply_sets(capsys, tmp_path, rows):
    validation, test = rows
    code, output, _ = run(capsys, "decide", "fit", VALIDATION, "--rule", "sets", "--coverage", 0.95, "--score", "aps", "--output", tmp_path / "rule")  # fmt: skip
    assert code == 0
    assert "A set holds the true class of at least 95 % of new rows" in output
    expected = decisions.PredictionSets(0.95, "aps").fit(validation.logits, validation.labels).predict(test.logits)
    names = test.class_names
    for suffix in ("csv", "jsonl", "npz"):
        path = tmp_path / f"answers.{suffix}"
        code, output, errors = run(capsys, "decide", "apply", tmp_path / "rule", TEST, "--output", path)
        assert (code, errors) == (0, "")
        assert "coverage % 9" in output
        assert f"Wrote {path}" in output
    sets = [[names[k] for k in row.nonzero()[:, 0].tolist()] for row in expected]
    with open(tmp_path / "answers.csv", newline="") as file:
        assert [line["answer"] for line in csv.DictReader(file)] == [" | ".join(row) for row in sets]
    lines = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert [line["answer"] for line in lines] == sets
    assert [line["sample_id"] for line in lines] == test.sample_ids.tolist()
    with np.load(tmp_path / "answers.npz", allow_pickle=False) as file:
        assert (file["answers"] == expected.numpy()).all()
        assert file["class_names"].tolist() == names


KINDS = {"even": ["zero", "two", "four"], "odd": ["one", "three"], "large": ["five", "six", "seven", "eight", "nine"]}
PAIRS = [("number", kind) for kind in KINDS] + [(kind, name) for kind, names in KINDS.items() for name in names]


TREES = {
    "header.csv": "parent,child\n" + "".join(f"{parent},{child}\n" for parent, child in PAIRS),
    "headerless.csv": "".join(f"{parent},{child}\n" for parent, child in PAIRS),
    "semicolons.csv": "".join(f"{parent};{child}\n" for parent, child in PAIRS),
    "turned.csv": "child,parent\n" + "".join(f"{child},{parent}\n" for parent, child in PAIRS),
    "t.tsv": "".join(f"{parent}\t{child}\n" for parent, child in PAIRS),
    "t.txt": "".join(f"{parent} {child}\n" for parent, child in PAIRS),
    "t.jsonl": "".join(json.dumps({"parent": parent, "child": child}) + "\n" for parent, child in PAIRS),
    "t.json": json.dumps({"number": KINDS}),
    "t.yaml": "".join(f"{kind}: [{', '.join(names)}]\n" for kind, names in KINDS.items()),
    "superclasses.csv": "class,superclass\n" + "".join(f"{child},{parent}\n" for parent, child in PAIRS[3:]),
    "superclasses.json": json.dumps({child: parent for parent, child in PAIRS[3:]}),
}


@pytest.mark.parametrize("name", TREES)
def test_a_file_is_the_same_tree_in_every_command(capsys, tmp_path, rows, name):
    names = rows[0].class_names
    (tmp_path / name).write_text(TREES[name])
    (tmp_path / "names.txt").write_text("".join(f"{known}\n" for known in names))
    fit = ("decide", "fit", VALIDATION, "--rule", "climb", "--tree", tmp_path / name, "--error", 0.1)
    code, _, errors = run(capsys, *fit, "--output", tmp_path / "r")
    assert code == 0, errors
    tree = decisions.load(tmp_path / "r").tree
    root = "everything" if "superclasses" in name or name == "t.yaml" else "number"
    assert tree.names[10:] == ("odd", "even", "large", root)
    assert [tree.names[tree.parents[k]] for k in range(10)] == [
        next(kind for kind, members in KINDS.items() if known in members) for known in names
    ]
    out = tmp_path / "out"
    code, _, errors = run(capsys, "similarity", tmp_path / "names.txt", "--tree", tmp_path / name, "--output", out)
    assert code == 0, errors
    expected = distances.from_taxonomy(PAIRS, names)
    np.testing.assert_array_equal(distances.load(out / "distances.safetensors", class_names=names), expected)
    np.testing.assert_array_equal(distances.from_taxonomy(tree, names), expected)


@pytest.mark.filterwarnings("default::softkin.predictions.Assumption")
def test_climb_by_names_alone_and_by_files(capsys, tmp_path, rows):
    validation, test = rows
    names = test.class_names
    distances.save(tmp_path / "d.safetensors", distances.from_words(names), class_names=names, source="words")
    tree = decisions.Tree.from_distances(distances.from_words(names), class_names=names)
    expected = decisions.Climb(tree, 0.1).fit(validation.logits, validation.labels).predict(test.logits)
    said = [None if node < 0 else tree.names[node] for node in expected.tolist()]
    for place, source in enumerate(("names", tmp_path / "d.safetensors")):
        folder, path = tmp_path / f"rule{place}", tmp_path / f"answers{place}.jsonl"
        assert run(capsys, "decide", "fit", VALIDATION, "--rule", "climb", "--tree", source, "--error", 0.1, "--output", folder)[0] == 0  # fmt: skip
        assert run(capsys, "decide", "apply", folder, TEST, "--output", path)[0] == 0
        assert [json.loads(line)["answer"] for line in path.read_text().splitlines()] == said
    (tmp_path / "tree.csv").write_text("class,superclass\n" + "".join(f"{name},{'even' if k % 2 == 0 else 'odd'}\n" for k, name in enumerate(names)))  # fmt: skip
    assert run(capsys, "decide", "fit", VALIDATION, "--rule", "climb", "--tree", tmp_path / "tree.csv", "--error", 0.1, "--output", tmp_path / "r")[0] == 0  # fmt: skip
    assert decisions.load(tmp_path / "r").tree.names[10:] == ("even", "odd", "everything")
    (tmp_path / "edges.csv").write_text("parent,child\n" + "".join(f"{'even' if k % 2 == 0 else 'odd'},{name}\n" for k, name in enumerate(names)))  # fmt: skip
    code, _, said = run(capsys, "decide", "fit", VALIDATION, "--rule", "climb", "--tree", tmp_path / "edges.csv", "--error", 0.1, "--output", tmp_path / "r", "--force")  # fmt: skip
    assert (code, "edges.csv has 2 roots (even, odd): they are taken as kinds below one." in said) == (0, True)
    assert decisions.load(tmp_path / "r").tree.names[10:] == ("even", "odd", "everything")


def test_classes_in_another_order_are_matched_by_name(capsys, tmp_path, rows):
    _, test = rows
    order = torch.randperm(10, generator=torch.Generator().manual_seed(1))
    names = [test.class_names[k] for k in order.tolist()]
    turned = tmp_path / "turned.npz"
    predictions.Predictions(test.logits[:, order], order.argsort()[test.labels], names, test.sample_ids).save(turned)
    for rule in (("sets", "--conditional", "class"), ("climb", "--tree", "names", "--error", 0.2)):
        run(capsys, "decide", "fit", VALIDATION, "--rule", *rule, "--output", tmp_path / "rule", "--force")
        said = {}
        for path in (TEST, turned):
            to = tmp_path / f"{path.stem}.jsonl"
            code, output, errors = run(capsys, "decide", "apply", tmp_path / "rule", path, "--output", to, "--force")
            assert (code, errors) == (0, "")
            said[path.stem] = output.splitlines()
        line = "turned.npz has its classes in another order than the rule; they were matched by name."
        assert said["turned"][0] == line
        assert said["turned"][1:-1] == said[TEST.stem][:-1]
        assert (tmp_path / "turned.jsonl").read_text() == (tmp_path / f"{TEST.stem}.jsonl").read_text()


@pytest.mark.filterwarnings("default")
def test_rows_of_the_fit_are_noticed(capsys, tmp_path):
    run(capsys, "decide", "fit", VALIDATION, "--rule", "abstain", "--error", 0.1, "--output", tmp_path / "rule")
    code, _, errors = run(capsys, "decide", "apply", tmp_path / "rule", VALIDATION, "--output", tmp_path / "x.csv")
    assert code == 0
    assert (
        "700 of the 700 samples of digits-validation.npz are among those that the abstain rule was fitted on" in errors
    )
    code, output, errors = run(capsys, "decide", "compare", VALIDATION, VALIDATION, "--rules", "abstain", "--json")
    assert "700 of the 700 samples" in errors
    assert "the rules were fitted on" in json.loads(output)["warnings"][0]


@pytest.mark.filterwarnings("default")
def test_rows_of_the_fit_are_noticed_however_the_file_is_read(capsys, tmp_path):
    """Scores of two digits, so that most rows equal another: as pairs and as classes they are the same rows."""
    rng = np.random.default_rng(0)
    p = rng.random(400).round(2)
    lines = [f"{score},{int(rng.random() < score)}" for score in p]
    (tmp_path / "churn.csv").write_text("\n".join(["score,churned", *lines]) + "\n")
    rule, as_pairs = ("--rule", "abstain", "--error", 0.4), ("--outcome", "churned")
    fit = ("decide", "fit", tmp_path / "churn.csv", *rule, *as_pairs, "--output", tmp_path / "rule")
    assert run(capsys, *fit)[0] == 0
    for options in (as_pairs, ()):
        apply = ("decide", "apply", tmp_path / "rule", tmp_path / "churn.csv", *options, "--force")
        code, _, errors = run(capsys, *apply, "--output", tmp_path / "answers.csv")
        assert code == 0
        assert "400 of the 400 samples of churn.csv are among those that the abstain rule was" in errors


@pytest.mark.filterwarnings("default")
def test_the_column_of_confidences_is_named_as_in_evaluate_or_said(capsys, tmp_path):
    rng = np.random.default_rng(0)
    p = rng.random(400)
    lines = [f"{score:.4f},{1 - score / 2:.4f},{int(rng.random() < score)}" for score in p]
    (tmp_path / "two.csv").write_text("\n".join(["p,other,churned", *lines]) + "\n")
    fit = ("decide", "fit", tmp_path / "two.csv", "--rule", "abstain", "--error", 0.4, "--force")
    thresholds = {}
    for options in (("--score", "other"), ("--score", "p"), ()):
        outcome = ("--outcome", "churned", "--output", tmp_path / "rule")
        code, output, errors = run(capsys, *fit, *options, *outcome)
        assert code == 0, errors
        assert "answers are of both classes" not in output
        said = "`p` is taken for the confidence (--score names another)"
        assert (said in errors) == (options == ())
        thresholds[options[1:]] = decisions.load(tmp_path / "rule").threshold_
    assert thresholds[("p",)] == thresholds[()] != thresholds[("other",)]
    code, _, errors = run(capsys, *fit, "--score", "p", "--output", tmp_path / "rule")
    assert code == 2
    assert "got 'p'; for a column of confidences add --outcome, which alone is enough." in errors


@pytest.mark.filterwarnings("default")
def test_a_binary_rule_says_that_it_answers_with_both_classes(capsys, tmp_path):
    fit = ("decide", "fit", EXAMPLES / "churn.csv", "--rule", "abstain", "--error", 0.3, "--output", tmp_path / "rule")
    code, output, _ = run(capsys, *fit)
    assert code == 0
    assert "answers are of both classes" in " ".join(output.split())
    code, output, _ = run(capsys, *fit[:3], "--rule", "sets", "--output", tmp_path / "sets")
    assert "both classes" not in output


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("rule", [("abstain", "--error", 0.4), ("sets",), ("climb", "--tree", "names", "--error", 0.4)])
def test_answers_stand_beside_the_columns_of_a_table(capsys, tmp_path, rule):
    rng, names = np.random.default_rng(0), ["cat", "dog", "eel"]
    p = rng.dirichlet(np.ones(3), 300).round(4)
    lines = []
    for place, row in enumerate(p):
        label = rng.choice(names, p=row / row.sum()) if place % 5 else ""
        lines.append(
            [str(place), f"C{place // 2}", *(f"{value:.4f}".replace(".", ",") for value in row), label, "an answer"]
        )
    head = ["", "client", *names, "truth", "answer"]
    path, answers = tmp_path / "some.csv", tmp_path / "answers.csv"
    path.write_text("\n".join(";".join(line) for line in [head, *lines]) + "\n")
    options = ("--label-column", "truth")
    fit = ("decide", "fit", path, "--rule", *rule, "--output", tmp_path / "rule", *options)
    assert run(capsys, *fit)[0] == 0
    apply = ("decide", "apply", tmp_path / "rule", path, *options)
    code, output, errors = run(capsys, *apply, "--output", answers)
    assert code == 0, errors
    with open(answers, newline="") as file:
        header, *written = csv.reader(file, delimiter=";")
    assert header == [*head, "rule_answer", "answer_confidence"]
    assert [row[:7] for row in written] == lines
    run(capsys, *apply, "--output", tmp_path / "answers.jsonl")
    said = [json.loads(line)["answer"] for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert [row[7] for row in written] == [" | ".join(one) if isinstance(one, list) else one or "" for one in said]
    q = p / p.sum(axis=1, keepdims=True)
    tree = decisions.load(tmp_path / "rule").tree if rule[0] == "climb" else None
    for row, one, scores in zip(written, said, q, strict=True):
        inside = one if isinstance(one, list) else [one]
        if tree is not None and one is not None:
            inside = [
                name for name, held in zip(names, tree.members[tree.names.index(one)].tolist(), strict=True) if held
            ]
        expected = sum(scores[names.index(name)] for name in inside if name)
        assert float(row[8].replace(",", ".") or 0) == pytest.approx(expected, abs=1e-4)
        assert ("," in row[8], "." in row[8]) == (bool(one), False)
    few = [one if isinstance(one, list) else [one] * (one is not None) for one in said]
    one, none = sum(len(row) == 1 for row in few), sum(len(row) == 0 for row in few)
    line = f"{one} of 300 rows are answered; {none} are left, without an answer in the file."
    if rule[0] == "sets":
        line = f"{one} of 300 rows have a set of one class, {300 - one - none} of several, {none} of none."
    assert line in output
    code, output, _ = run(capsys, *apply, "--output", answers, "--force", "--json")
    assert json.loads(output)["num_answered"] == (300 - none if rule[0] == "sets" else one)


@pytest.mark.filterwarnings("default")
def test_rows_of_the_fit_are_noticed_where_some_labels_are_missing(capsys, tmp_path):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 200)
    labels = [rng.choice(["cat", "dog", "eel"], p=row) if place % 5 else "" for place, row in enumerate(p)]
    lines = [",".join([*(f"{value:.6f}" for value in row), str(label)]) for row, label in zip(p, labels, strict=True)]
    (tmp_path / "some.csv").write_text("\n".join(["cat,dog,eel,label", *lines]))
    (tmp_path / "bare.csv").write_text("\n".join(["cat,dog,eel", *(line.rpartition(",")[0] for line in lines)]))
    fit = ("decide", "fit", tmp_path / "some.csv", "--rule", "abstain", "--error", 0.4, "--output", tmp_path / "rule")
    assert run(capsys, *fit)[0] == 0
    for name, said in (
        ("some", "160 of the 200 samples of some.csv are among those that the abstain rule was"),
        ("bare", ""),
    ):
        apply = (
            "decide",
            "apply",
            tmp_path / "rule",
            tmp_path / f"{name}.csv",
            "--output",
            tmp_path / "o.csv",
            "--force",
        )
        code, output, errors = run(capsys, *apply, "--json")
        assert code == 0, errors
        assert said in errors
        assert json.loads(output)["num_samples"] == 200
        assert len(json.loads(output)["warnings"]) == (name == "some")


def test_groups_of_classes_come_from_a_file(capsys, tmp_path, rows):
    validation, test = rows
    names = test.class_names
    kinds = {name: "odd" if k % 2 else "even" for k, name in enumerate(names)}
    (tmp_path / "groups.json").write_text(json.dumps(kinds))
    (tmp_path / "groups.csv").write_text("class,group\n" + "".join(f"{name},{kind}\n" for name, kind in kinds.items()))
    groups = np.arange(10) % 2
    expected = decisions.PredictionSets(0.95, conditional=groups).fit(validation.logits, validation.labels)
    for suffix in ("csv", "json"):
        code, output, errors = run(capsys, "decide", "fit", VALIDATION, "--rule", "sets", "--coverage", 0.95, "--conditional", tmp_path / f"groups.{suffix}", "--output", tmp_path / suffix)  # fmt: skip
        assert code == 0, errors
        assert "of each group of classes" in output
        rule = decisions.load(tmp_path / suffix)
        assert rule.limits_.tolist() == expected.limits_.tolist()
        assert rule.predict(test.logits).equal(expected.predict(test.logits))
    code, output, _ = run(capsys, "decide", "compare", VALIDATION, TEST, "--rules", "sets", "--coverage", 0.95, "--conditional", tmp_path / "groups.csv", "--json")  # fmt: skip
    lines = {line["rule"]: line for line in json.loads(output)["rules"]}
    outcome = expected.evaluate(test.logits, test.labels)
    assert lines["sets per group, LAC"]["measures"]["size"]["value"] == pytest.approx(outcome["size"].value)
    assert "sets per class, LAC" in lines


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("g.csv", "class,group\nzero,a\n", "must have a group for each class, but 'one' has none"),
        ("g.csv", "class,group\nzeroo,a\n", "got 'zeroo'; did you mean 'zero'?"),
        ("g.csv", "class,group\nzero,a\nzero,b\n", "must give each class one group, but 'zero' has two."),
        ("g.csv", "class,group\nzero,a,b\n", "must have two columns, class and group, but line 2 has 3."),
        ("g.json", "[1]", "must be one JSON object with the group of each class"),
        ("clas", None, "--conditional must be class, or a .csv or .json file with the group of each class, got"),
    ],
)
def test_groups_that_cannot_be_are_refused_in_a_sentence(capsys, tmp_path, name, content, words):
    if content is not None:
        (tmp_path / name).write_text(content)
    code, _, errors = run(capsys, "decide", "fit", VALIDATION, "--rule", "sets", "--conditional", tmp_path / name, "--output", tmp_path / "r")  # fmt: skip
    assert code != 0
    assert words in errors
    assert "Traceback" not in errors


@pytest.mark.filterwarnings("ignore::softkin.predictions.Assumption")
def test_sets_by_group_of_rows_and_by_weight(capsys, tmp_path):
    rng = np.random.default_rng(0)
    tables = {}
    for name in ("held", "new"):
        p = rng.dirichlet([1, 1, 1], 300)
        y = np.array([rng.choice(3, p=row) for row in p])
        site, w = rng.choice(["north", "south"], 300), rng.gamma(2, size=300).round(3)
        lines = [f"{','.join(f'{v:.9f}' for v in p[i])},{'abc'[y[i]]},{site[i]},{w[i]}" for i in range(300)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["a,b,c,label,site,w", *lines]))
        tables[name] = np.array([[float(f"{v:.9f}") for v in row] for row in p]), y, site, w
    (p, y, site, w), (q, _, new_site, new_w) = tables["held"], tables["new"]
    p, q = (rows / rows.sum(1, keepdims=True) for rows in (p, q))
    held, new, rule, answers = (tmp_path / part for part in ("held.csv", "new.csv", "rule", "answers.npz"))
    for option, beside, own in (
        (["--group", "site"], {"groups": site}, {"groups": new_site}),
        (["--weight", "w"], {"weights": w}, {"weights": new_w}),
    ):
        fit = ("decide", "fit", held, "--rule", "sets", *option, "--output", rule, "--force")
        code, output, errors = run(capsys, *fit)
        assert code == 0, errors
        assert ("of each group of rows" if beside.get("groups") is not None else "density ratios") in output
        code, output, errors = run(capsys, "decide", "apply", rule, new, *option, "--output", answers, "--force")
        assert code == 0, errors
        assert ("worst group %" in output) == ("groups" in beside)
        expected = decisions.PredictionSets().fit(p, y, from_probabilities=True, **beside)
        with np.load(answers) as file:
            assert (file["answers"] == expected.predict(q, from_probabilities=True, **own)).all()
        code, _, errors = run(capsys, "decide", "apply", rule, new, "--output", answers, "--force")
        assert code == 1
        assert f"`{next(iter(beside))}` must be given: the rule was fitted with them" in errors
    abstain = (
        "decide",
        "fit",
        held,
        "--rule",
        "abstain",
        "--error",
        "0.4",
        "--weight",
        "w",
        "--output",
        rule,
        "--force",
    )
    code, _, errors = run(capsys, *abstain)
    assert code != 0
    assert "the guarantee of Abstain knows no weights of rows" in errors


@pytest.mark.filterwarnings("default")
def test_a_name_without_a_vector_is_like_all_others(capsys, tmp_path):
    names = ["cat", "dog", "car", "truck", "ship", "汽车", "Katze", "J45.9", "n01440764"]
    y = torch.arange(180) % 9
    logits = torch.randn(180, 9, generator=torch.Generator().manual_seed(0)) + 2 * torch.eye(9)[y]
    predictions.Predictions(logits, y, names).save(tmp_path / "p.npz")
    for options in (("sets", "--similarity", "names"), ("climb", "--tree", "names", "--error", 0.3)):
        fit = ("decide", "fit", tmp_path / "p.npz", "--output", tmp_path / options[0], "--rule", *options)
        code, _, errors = run(capsys, *fit)
        assert code == 0, errors
        assert "3 of 9 classes have names without a vector" in errors
        assert "--alias '汽车=OTHER' looks up another word instead" in errors
        code, _, errors = run(capsys, *fit, "--alias", "Katze=kitten", "--force")
        assert code == 0, errors
        assert "2 of 9 classes have names without a vector" in errors


@pytest.fixture(scope="module")
def parts():
    """Rows of three classes, too sure by a factor of three in their logits: for two calibrators, a rule and a test."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(1600, 3)) * 2
    y = [rng.choice(3, p=row) for row in np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)]
    names = ["cat", "dog", "eel"]
    return [
        predictions.Predictions(3 * z[400 * n : 400 * (n + 1)], y[400 * n : 400 * (n + 1)], class_names=names)
        for n in range(4)
    ]


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("suffix", ["csv", "npz", "safetensors"])
def test_a_rule_belongs_to_its_calibrator(capsys, tmp_path, monkeypatch, parts, suffix):
    monkeypatch.chdir(tmp_path)
    for name, part in zip(("first", "second", "rule", "test"), parts, strict=True):
        part.save(f"{name}.{suffix}")
    for fit in ("first", "second"):
        run(capsys, "calibrate", "fit", f"{fit}.{suffix}", "--method", "temperature", "--output", f"cal-{fit}")
        for part in ("first", "rule", "test"):
            run(capsys, "calibrate", "apply", f"cal-{fit}", f"{part}.{suffix}", "--output", f"{part}-{fit}.{suffix}")
    fit_rule = ("decide", "fit", "--rule", "abstain", "--error", 0.25)

    def applied(rule, file):
        code, printed, _ = run(capsys, "decide", "apply", rule, file, "--output", "o.csv", "--force", "--json")
        assert code == 0
        return " ".join(json.loads(printed)["warnings"])

    for source, rule in ((f"rule.{suffix}", "raw"), (f"rule-first.{suffix}", "calibrated")):
        code, _, errors = run(capsys, *fit_rule, source, "--output", rule)
        assert (code, "promise" in errors) == (0, False)
    assert applied("raw", f"test.{suffix}") == applied("calibrated", f"test-first.{suffix}") == ""
    by = r"the rule was fitted on confidences calibrated by the temperature calibrator \[\w{8}\], and those of test"
    assert re.search(rf"{by}\.{suffix} are not known to be: .* run `softkin calibrate apply` first", applied("calibrated", f"test.{suffix}"))  # fmt: skip
    assert re.search(rf"{by}-second\.{suffix} are by .* another fit: ", applied("calibrated", f"test-second.{suffix}"))
    assert "fit the rule on calibrated rows" in applied("raw", f"test-first.{suffix}")
    _, _, errors = run(capsys, *fit_rule, f"first-first.{suffix}", "--output", "seen")
    assert "400 of the 400 samples of" in errors
    assert "the rule's promise may not hold; fit the rule on other samples" in " ".join(errors.split())
