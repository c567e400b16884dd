"""The inspector: labels, groups, rows that look wrong, and mending them."""

import json
import math

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from command_line import run
from places import EXAMPLES
from softkin import distances, report, similarity, smoothing
from softkin.audition import inspection

NAMES = ["fox", "wolf", "dog", "television", "radio", "rose", "tulip", "oak"]

CIFAR = EXAMPLES / "cifar100.txt"


def matrix(seed=0):
    x = torch.randn(8, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.cdist(x, x)


def test_a_class_by_hand():
    S = similarity.from_distances(matrix(), 1.0)
    seen = inspection.inspect(S, NAMES, alpha=0.2)
    row = seen.row(0, top=3)
    label = smoothing.similarity_labels(S, 0.2)[0]
    assert row["label"] == 0.8
    best = sorted(range(1, 8), key=lambda j: -float(S[0, j]))[:3]
    assert [neighbour["name"] for neighbour in row["nearest"]] == [NAMES[j] for j in best]
    assert [neighbour["label"] for neighbour in row["nearest"]] == pytest.approx([float(label[j]) for j in best])
    assert row["entropy"] == pytest.approx(-sum(float(s) * math.log(float(s)) for s in S[0] if s > 0))
    assert row["effective_classes"] == pytest.approx(math.exp(row["entropy"]))
    epsilon = row["uniform_epsilon"]
    assert 1 - epsilon + epsilon / 8 == pytest.approx(0.8)
    epsilon = row["uniform_epsilon_entropy"]
    uniform = smoothing.uniform_labels(8, epsilon)[0]
    assert float(torch.special.entr(uniform).sum()) == pytest.approx(float(torch.special.entr(label).sum()))
    assert inspection.inspect(S, NAMES, alpha=0.0).row(0)["uniform_epsilon_entropy"] == 0


def test_groups_are_those_of_average_linkage():
    S = similarity.from_distances(matrix(1), 2.0)
    seen = inspection.inspect(S, NAMES)
    apart = -torch.log(S + S.T)
    apart = (apart - apart[~torch.eye(8, dtype=torch.bool)].min()).fill_diagonal_(0)
    tree = linkage(squareform(apart.numpy(), checks=False), "average", optimal_ordering=True)
    assert seen.order == leaves_list(tree).tolist()
    assert [merge[2] for merge in seen.merges] == pytest.approx(tree[:, 2].tolist())


def test_a_neighbour_that_another_source_confirms_is_no_surprise():
    names = CIFAR.read_text().split("\n")[:100]
    for vectors, surprising, confirmed in (("glove", "fox", "crab"), ("minilm", "tank", "lobster")):
        s = similarity.from_distances(distances.from_words(names, vectors=vectors), 2.0)
        others = inspection.other_sources(names, vectors=vectors)
        dominated = {names[k] for k in (s.max(dim=1).values > 0.5).nonzero()[:, 0].tolist()}
        odd = inspection.inspect(s, names, others=others).oddities
        beside = {names[oddity.k] for oddity in odd if oddity.kind == "dominated"}
        assert {surprising, confirmed} <= dominated
        assert surprising in beside
        assert confirmed not in beside
        assert len(beside) < len(dominated) / 2


def test_without_another_source_only_few_dominated_rows_stand_out():
    def row_of(k, share):
        row = torch.full((8,), (1 - share) / 6, dtype=torch.float64)
        row[k], row[(k + 1) % 8] = 0, share
        return row

    for count, found in ((2, [0, 1]), (3, [])):
        S = torch.stack([row_of(k, 0.8 if k < count else 0.2) for k in range(8)])
        assert [oddity.k for oddity in inspection.inspect(S, NAMES).oddities] == found


def test_rows_that_look_wrong():
    S = torch.full((8, 8), 1 / 7, dtype=torch.float64).fill_diagonal_(0)
    S[:, 7] = 0.001
    S[0] = torch.tensor([0, 0.05, 0.05, 0.8, 0.05, 0.025, 0.024, 0.001])
    S = S.fill_diagonal_(0) / S.fill_diagonal_(0).sum(dim=1, keepdim=True)
    D = torch.ones(8, 8).fill_diagonal_(0)
    for group in ([0, 1, 2], [3, 4], [5, 6, 7]):
        for i in group:
            D[i, group] = 0.1
    D[0, 3] = D[3, 0] = 5
    seen = inspection.inspect(S, NAMES, others={"another": D.fill_diagonal_(0)})
    kinds = {(oddity.kind, NAMES[oddity.k]) for oddity in seen.oddities}
    assert ("dominated", "fox") in kinds
    assert ("alone", "oak") in kinds
    words = [oddity.words for oddity in seen.oddities if oddity.kind == "dominated"]
    assert words == ["'television' takes 0.80 of the α of 'fox', but is not the nearest by another"]


def test_homographs_are_found_by_disagreement(capsys):
    code, output, errors = run(capsys, "similarity", "show", CIFAR, "--vectors", "glove", "--json")
    assert (code, errors) == (0, "")
    odd = [oddity["class"] for oddity in json.loads(output)["oddities"] if oddity["kind"] == "disagreement"]
    assert {"tulip", "orange", "plate"} <= set(odd)
    assert len(odd) < 15  # of a hundred
    assert not {"dolphin", "bicycle", "wolf"} & set(odd)


def test_neighbours_of_one_kind_are_not_accused(capsys):
    """Of CIFAR-100 a third was, such as caterpillar and butterfly; a tank that is like an aquarium fish still is."""
    code, output, errors = run(capsys, "similarity", "show", CIFAR, "--json")
    assert (code, errors) == (0, "")
    odd = {oddity["class"] for oddity in json.loads(output)["oddities"]}
    assert {"tank", "apple"} <= odd  # apple is nearest to pear, otter and leopard
    assert len(odd) <= 10
    assert not {"caterpillar", "butterfly", "bus", "tractor", "clock", "wardrobe"} & odd


def test_homographs_are_found_by_a_tree(capsys, shared_data):
    tree = shared_data / "taxonomy" / "cifar100-parent-child.csv"
    code, output, errors = run(capsys, "similarity", "show", CIFAR, "--compare-with", tree, "--json")
    assert (code, errors) == (0, "")
    odd = [oddity for oddity in json.loads(output)["oddities"] if oddity["kind"] == "disagreement"]
    assert [oddity["class"] for oddity in odd] == ["ray", "seal"]
    assert odd[0]["words"].startswith(
        "'ray' is nearest to 'television', 'lamp', 'oak_tree', and cifar100-parent-child.csv sees 57 %"
    )


def test_a_correction_makes_a_class_like_others():
    D = matrix(2)
    fixed = inspection.fixed(D, NAMES, {"fox": ["wolf", "dog"]})
    assert torch.equal(fixed, fixed.T)
    rest = [3, 4, 5, 6, 7]
    torch.testing.assert_close(fixed[0, rest], (D[1, rest] + D[2, rest]) / 2)
    others = D.clone().fill_diagonal_(float("inf"))
    others[:, 0] = float("inf")
    assert float(fixed[0, 1]) == min(float(others[1].min()), float(fixed[0, rest].min()))
    untouched = torch.tensor([1, 2, *rest])
    assert torch.equal(fixed[untouched][:, untouched], D[untouched][:, untouched])
    S = similarity.from_distances(D, 2.0)
    mended = inspection.fixed_similarity(S, NAMES, {"fox": ["wolf", "dog"]})
    torch.testing.assert_close(mended.sum(dim=1), torch.ones(8, dtype=torch.float64))
    ratio = mended[3, rest[1:]] / S[3, rest[1:]]  # between the others nothing changes but the sum
    torch.testing.assert_close(ratio, ratio[:1].expand(4))
    for fixes, words in (
        ({"fix": ["wolf"]}, "names 'fix', which is not a class; did you mean 'fox'?"),
        ({"fox": ["fox"]}, "must not make 'fox' like itself"),
    ):
        with pytest.raises(ValueError) as error:
            inspection.fixed(D, NAMES, fixes)
        assert words in str(error.value)


def test_a_class_is_nearest_to_those_that_it_was_made_like():
    names = CIFAR.read_text().split()
    fox, leopard = names.index("fox"), names.index("leopard")
    D = distances.from_words(names, "glove")
    D = inspection.fixed(D, names, {"fox": ["wolf", "leopard"]})  # bears are nearer to wolves than anything to leopards
    assert torch.equal(D, D.T)
    far = D[fox].clone()
    far[fox] = float("inf")
    assert far[leopard] == far.kthvalue(2).values
    every = inspection.fixed(torch.ones(3, 3), ["a", "b", "c"], {"a": ["b", "c"]})
    assert torch.equal(every, 1 - torch.eye(3, dtype=torch.float64))


def test_show_mends_and_keeps_the_provenance(capsys, tmp_path):
    distances.save(tmp_path / "d.safetensors", matrix(3), class_names=NAMES, source="a toy")
    (tmp_path / "fixes.csv").write_text("class,like\nrose,tulip,oak\n")
    code, output, errors = run(
        capsys, "similarity", "show", tmp_path / "d.safetensors", "fox", "--fix", "fox=wolf,dog", "--fixes", tmp_path / "fixes.csv",
        "--picture", tmp_path / "s.png", "--report", tmp_path / "s.html", "--output", tmp_path / "s.safetensors",
    )  # fmt: skip
    assert (code, errors) == (0, "")
    assert "fox: keeps 0.900; entropy" in output
    saved = similarity.read(tmp_path / "s.safetensors")
    assert saved.about["fixes"] == {"rose": ["tulip", "oak"], "fox": ["wolf", "dog"]}
    assert saved.source.endswith("corrected: rose=tulip,oak; fox=wolf,dog")
    wanted = inspection.fixed(matrix(3), NAMES, {"rose": ["tulip", "oak"], "fox": ["wolf", "dog"]})
    torch.testing.assert_close(saved.values, similarity.from_distances(wanted, 2.0))
    with Image.open(tmp_path / "s.png") as picture:
        assert picture.size[0] > 300
    # a second correction of the file keeps the first
    code, _, errors = run(
        capsys,
        "similarity",
        "show",
        tmp_path / "s.safetensors",
        "--fix",
        "oak=rose",
        "--output",
        tmp_path / "t.safetensors",
    )
    assert (code, errors) == (0, "")
    assert set(similarity.read(tmp_path / "t.safetensors").about["fixes"]) == {"rose", "fox", "oak"}
    for arguments, words in (
        (["--fix", "fox"], "a correction must be CLASS=LIKE,LIKE…, got 'fox'."),
        (["--fix", "fox=cat"], "a correction names 'cat', which is not a class"),
        (["wolv"], "has no class 'wolv'; did you mean 'wolf'?"),
        (["--report", "x.pdf"], "--report must end in .html, got x.pdf."),
        (["--beta", 3], "--beta must be left out"),
    ):
        code, _, errors = run(capsys, "similarity", "show", tmp_path / "s.safetensors", *arguments)
        assert code in (1, 2)
        assert words in errors
        assert errors.count("\n") == 1


@pytest.mark.slow
def test_the_page_shows_the_labels_and_what_looks_wrong(browser, tmp_path):
    S = similarity.from_distances(matrix(4), 2.0)
    hostile = [*NAMES[:7], "</script><img src=x onerror=alert(1)>"]
    seen = inspection.inspect(
        S, hostile, alpha=0.2, source="a toy", others={"another": matrix(9)}, about={"fixes": {"fox": ["wolf"]}}
    )
    for name, D, beta in (("d", matrix(4), 2.0), ("s", distances.from_similarity(S), None)):
        path = report.write(tmp_path / f"{name}.html", report.build_inspection(seen, D, beta=beta))[0]
        page = browser.open(path)
        assert page.console() == []
        assert page.requests() == []
        page.run("document.querySelector('.label details').open = true")
        page.wait("document.querySelectorAll('.label [data-similarity]').length === 8")
        shown = page.run(
            "return [...document.querySelectorAll('.label [data-similarity]')].map((n) => [Number(n.dataset.class), Number(n.dataset.label)])"
        )
        own = page.run("return Number(document.querySelector('.label [data-class]').dataset.class)")
        label = smoothing.similarity_labels(S, 0.2)[own]
        for k, value in shown:
            assert value == pytest.approx(float(label[k]), abs=1e-6)
        text = page.run("return document.body.innerText")
        effective = np.median([seen.row(k, top=1)["effective_classes"] for k in range(8)])
        assert f"A label is spread over about {effective:.2g} of 7 other classes;" in page.text("#headline")
        assert "Corrected by hand: fox is like wolf" in text
        assert page.run("return document.querySelectorAll('#groups path').length") == 7


def test_the_terminal_lists_the_most_doubtful_rows_and_calls_none_of_them_wrong(capsys):
    code, output, errors = run(capsys, "similarity", "show", CIFAR, "--vectors", "glove")
    assert code == 0, errors
    words = output.replace("\n", " ")
    assert "may be worth a look; most such rows are right, of which these are the 10 most doubtful" in words
    assert "look wrong" not in words
    assert sum(line.startswith("  ") for line in output.splitlines()) == 10


@pytest.mark.slow
def test_many_classes_have_a_dendrogram_of_one_screen(browser, tmp_path):
    names = [f"kind {j}" for j in range(60)]
    points = torch.randn(60, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    d = torch.cdist(points, points)
    seen = inspection.inspect(similarity.from_distances(d, 2.0), names)
    path = report.write(tmp_path / "page.html", report.build_inspection(seen, d, beta=2.0))[0]
    page = browser.open(path)
    texts = "#groups svg > text[text-anchor=end]"
    lines = page.texts(texts)
    assert len(lines) == 40
    others = [int(line.rsplit("+", 1)[1].split("k")[0]) for line in page.run(f"return Array.from(document.querySelectorAll('{texts}'), (n) => n.firstChild.textContent)") if "+" in line]  # fmt: skip
    assert 40 + sum(others) == 60
    assert page.run("return document.querySelectorAll('#groups path.branch').length") == 39
    page.click("[data-focus='all-lines']")
    assert len(page.texts(texts)) == 60
    assert page.run("return document.querySelectorAll('#groups path.branch').length") == 59
    assert page.console() == []
