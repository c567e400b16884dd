"""Learned labels against a twin that keeps every row, dense and sparse, resumed, compiled, and on two ranks."""

import json
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from softkin import distances, similarity
from softkin.losses import ClassSimilarityLoss, learned

K = 6


def batches(seed, count=5, n=40, k=K):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        logits = 2 * torch.randn(n, k, generator=generator)
        yield logits, (logits + torch.randn(n, k, generator=generator)).argmax(1)


def twin(rows, alpha, k=K, prior=None, m=0.0, before=None):
    """The labels after an epoch of (probabilities, class) rows, written out."""
    right = [(p, y) for p, y in rows if int(np.argmax(p)) == y]
    table = np.full((k, k), 1 / k) if before is None else before.copy()
    own = np.mean([p[y] for p, y in right])
    for c in range(k):
        mine = [p for p, y in right if y == c]
        total = np.sum(mine, axis=0) if mine else np.zeros(k)
        if m:
            total = total + m * ((1 - own) * prior[c] + own * np.eye(k)[c])
        if len(mine) + m:
            table[c] = total / (len(mine) + m)
    return (1 - alpha) * np.eye(k) + alpha * table, table


def rows_of(pairs):
    return [(p.numpy(), int(y)) for z, labels in pairs for p, y in zip(z.double().softmax(1), labels, strict=True)]


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 99), alpha=st.floats(0.05, 0.95), m=st.sampled_from([0.0, 2.5, 40.0]))
def test_labels_are_the_mean_of_right_rows(seed, alpha, m):
    S = similarity.from_distances(distances.from_order(K)).numpy()
    loss_fn = ClassSimilarityLoss.learned(K, alpha, prior=S if m else None, prior_rows=m)
    table = None
    for epoch in range(2):
        pairs = list(batches(2 * seed + epoch, n=12))
        for logits, labels in pairs:
            loss_fn(logits, labels)
        loss_fn.end_epoch()
        expected, table = twin(rows_of(pairs), alpha, prior=S, m=m, before=table)
        np.testing.assert_allclose(loss_fn.soft_labels, expected, atol=1e-6)
        np.testing.assert_allclose(loss_fn.soft_labels.sum(1), 1, atol=1e-9)
    assert int(loss_fn.turned) == 2


@pytest.mark.parametrize("wide", [False, True])
def test_the_most_similar_pairs_are_the_largest_shares(monkeypatch, wide):
    if wide:
        monkeypatch.setattr(learned, "DENSE", 3)
        monkeypatch.setattr(learned, "KEPT", K - 2)
    loss_fn = ClassSimilarityLoss.learned(K)
    generator = torch.Generator().manual_seed(3)
    labels = torch.arange(200) % K
    loss_fn(4 * torch.eye(K)[labels] + torch.randn(200, K, generator=generator), labels)
    loss_fn.end_epoch()
    s = loss_fn.similarity
    expected = sorted(((max((s[a, b], a, b), (s[b, a], b, a))) for a in range(K) for b in range(a)), reverse=True)
    found = loss_fn.pairs(4)
    assert [(a, b) for a, b, _ in found] == [(a, b) for _, a, b in expected[:4]]
    assert [share for *_, share in found] == pytest.approx([float(share) for share, *_ in expected[:4]])
    if not wide:
        assert len(loss_fn.pairs(1000)) == K * (K - 1) // 2


def test_the_first_epoch_has_uniform_labels_or_those_of_the_prior():
    loss_fn = ClassSimilarityLoss.learned(4, alpha=0.5)
    logits, labels = torch.randn(9, 4), torch.arange(9) % 4
    torch.testing.assert_close(loss_fn(logits, labels), F.cross_entropy(logits, labels, label_smoothing=0.5))
    S = similarity.from_distances(distances.from_order(4))
    row = ClassSimilarityLoss.learned(4, alpha=0.5, prior=S).soft_labels[0]
    torch.testing.assert_close(row[1:], 0.5 * 0.75 * S[0, 1:])


def test_loss_is_that_of_its_labels_and_nothing_is_gathered_in_evaluation():
    loss_fn = ClassSimilarityLoss.learned(K)
    logits, labels = next(batches(0))
    q = loss_fn.soft_labels[labels].float()
    torch.testing.assert_close(loss_fn.eval()(logits, labels), -(q * logits.log_softmax(1)).sum(1).mean())
    assert not loss_fn.sums.any()
    loss_fn.train()(logits, labels)
    assert loss_fn.counts.sum() == (logits.argmax(1) == labels).sum()


def test_pixels_ignored_and_mixed_targets():
    plain, wide, mixed = (ClassSimilarityLoss.learned(K, ignore_index=-1) for _ in range(3))
    logits, labels = next(batches(3))
    labels[::5] = -1
    plain(logits, labels)
    wide(logits.view(4, 10, K).movedim(2, 1), labels.view(4, 10))
    torch.testing.assert_close(wide.sums, plain.sums)
    kept = labels >= 0
    mixed(logits[kept], 0.7 * F.one_hot(labels[kept], K) + 0.3 * F.one_hot((labels[kept] + 1) % K, K))
    torch.testing.assert_close(mixed.sums, plain.sums)


def test_steps_turn_over_by_themselves_and_a_loss_that_is_never_turned_says_so(monkeypatch):
    called, counted = ClassSimilarityLoss.learned(K), ClassSimilarityLoss.learned(K, steps=3)
    for number, (logits, labels) in enumerate(batches(1, count=6)):
        called(logits, labels)
        counted(logits, labels)
        if number % 3 == 2:
            called.end_epoch()
        assert torch.equal(called.soft_labels, counted.soft_labels)
    monkeypatch.setattr(learned, "FORGOTTEN", 2)
    forgotten = ClassSimilarityLoss.learned(K)
    (first, *_), (second, *_) = batches(1, count=2), batches(2, count=2)
    forgotten(*first)
    with pytest.warns(UserWarning, match="never turned over"):
        forgotten(*second)


@pytest.mark.parametrize("wide", [False, True])
def test_training_resumes_to_the_bit(monkeypatch, wide):
    if wide:
        monkeypatch.setattr(learned, "DENSE", 3)
        monkeypatch.setattr(learned, "KEPT", 2)
    whole = ClassSimilarityLoss.learned(K, steps=4)
    broken = ClassSimilarityLoss.learned(K, steps=4)
    for logits, labels in batches(5, count=10):
        loss = whole(logits, labels)
        resumed = ClassSimilarityLoss.learned(K, steps=4)
        resumed.load_state_dict(broken.state_dict())
        broken = resumed
        assert torch.equal(broken(logits, labels), loss)
    for name, value in whole.state_dict().items():
        assert torch.equal(value, broken.state_dict()[name]), name


def test_sparse_tables_equal_dense_ones_where_they_hold_everything(monkeypatch):
    """With as many classes kept as matter, nothing is lost; with fewer, the rest is spread evenly."""
    k = 12
    S = similarity.from_distances(distances.from_order(k))
    for prior, options in ((None, {}), (S, {}), (S, {"prior_rows": 500.0})):
        dense = ClassSimilarityLoss.learned(k, prior=prior, **options)
        monkeypatch.setattr(learned, "DENSE", 3)
        monkeypatch.setattr(learned, "KEPT", k - 2)
        sparse = ClassSimilarityLoss.learned(k, prior=prior, **options)
        monkeypatch.undo()
        assert sparse._is_sparse
        for _ in range(2):
            for logits, labels in batches(7, count=4, n=200, k=k):
                near = logits - 3 * (torch.arange(k) - labels[:, None]).abs()
                torch.testing.assert_close(sparse(near, labels), dense(near, labels), rtol=1e-4, atol=1e-4)
            dense.end_epoch()
            sparse.end_epoch()
            torch.testing.assert_close(sparse.labels(), dense.labels(), atol=1e-3, rtol=0)
            torch.testing.assert_close(sparse.labels().sum(1), torch.ones(k, dtype=torch.float64))
        torch.testing.assert_close(sparse.similarity, dense.similarity, atol=0.02, rtol=0)


def test_few_kept_classes_are_the_ones_confused_most(monkeypatch):
    monkeypatch.setattr(learned, "DENSE", 3)
    monkeypatch.setattr(learned, "KEPT", 2)
    k = 9
    loss_fn = ClassSimilarityLoss.learned(k)
    for _, labels in batches(0, count=10, n=100, k=k):
        logits = torch.zeros(100, k).scatter(1, labels[:, None], 4.0)
        logits.scatter_(1, ((labels + 1) % k)[:, None], 2.0).scatter_(1, ((labels + 3) % k)[:, None], 1.0)
        loss_fn(logits + 0.1 * torch.randn(100, k), labels)
    loss_fn.end_epoch()
    for c in range(k):
        assert set(loss_fn.indices[c].tolist()) == {(c + 1) % k, (c + 3) % k}
    torch.testing.assert_close(loss_fn.labels().sum(1), torch.ones(k, dtype=torch.float64))


def test_a_network_learns_which_classes_are_alike():
    torch.manual_seed(0)
    centres = torch.tensor([[0.0, 0], [0.7, 0], [6, 0], [6.7, 0]])
    x = (centres[:, None] + torch.randn(4, 200, 2)).reshape(-1, 2)
    y = torch.arange(4).repeat_interleave(200)
    model, loss_fn = torch.nn.Linear(2, 4), ClassSimilarityLoss.learned(4, 0.3)
    optimizer = torch.optim.Adam(model.parameters(), 0.05)
    for _ in range(60):
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()
        loss_fn.end_epoch()
    assert loss_fn.similarity.argmax(1).tolist() == [1, 0, 3, 2]


@pytest.mark.slow
def test_autocast_and_compile():
    loss_fn, half = ClassSimilarityLoss.learned(K), ClassSimilarityLoss.learned(K)
    logits, labels = next(batches(0))
    loss_fn(logits, labels)
    with torch.autocast("cpu", torch.bfloat16):
        half(logits.bfloat16(), labels)
    torch.testing.assert_close(half.sums, loss_fn.sums, atol=0.2, rtol=0.02)
    assert half.sums.dtype == torch.float64
    torch.compiler.reset()
    compiled_loss = ClassSimilarityLoss.learned(K)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the compiler's own
        compiled = torch.compile(compiled_loss, backend="aot_eager")
        for _ in range(3):
            compiled(logits, labels)
        compiled_loss.end_epoch()
        again = compiled(logits, labels)
    for _ in range(2):
        loss_fn(logits, labels)
    loss_fn.end_epoch()
    torch.testing.assert_close(compiled_loss.soft_labels, loss_fn.soft_labels)
    torch.testing.assert_close(again, loss_fn(logits, labels))


RANK = """
import json, sys
import torch, torch.distributed as dist
from softkin.losses import ClassSimilarityLoss, learned
rank, meeting, wide = int(sys.argv[1]), sys.argv[2], sys.argv[3] == "wide"
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
if wide:
    learned.DENSE, learned.KEPT = 3, 5
loss_fn = ClassSimilarityLoss.learned(7)
generator = torch.Generator().manual_seed(0)
logits = 2 * torch.randn(60, 7, generator=generator)
labels = (logits + torch.randn(60, 7, generator=generator)).argmax(1)
mine = slice(0, 17) if rank == 0 else slice(17, 60)
loss_fn(logits[mine], labels[mine])
loss_fn.end_epoch()
print(json.dumps(loss_fn.labels().tolist()))
dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.parametrize("form", ["dense", "wide"])
def test_all_ranks_learn_from_all_rows(tmp_path, monkeypatch, form):
    (tmp_path / "rank.py").write_text(RANK)
    command = [sys.executable, str(tmp_path / "rank.py")]
    running = [
        subprocess.Popen(
            [*command, str(rank), str(tmp_path / "meeting"), form],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    outputs = []
    for process in running:
        out, err = process.communicate(timeout=240)
        assert process.returncode == 0, err
        outputs.append(np.array(json.loads(out)))
    np.testing.assert_array_equal(*outputs)
    if form == "wide":
        monkeypatch.setattr(learned, "DENSE", 3)
        monkeypatch.setattr(learned, "KEPT", 5)
    loss_fn = ClassSimilarityLoss.learned(7)
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(60, 7, generator=generator)
    loss_fn(logits, (logits + torch.randn(60, 7, generator=generator)).argmax(1))
    loss_fn.end_epoch()
    np.testing.assert_allclose(outputs[0], loss_fn.labels(), atol=1e-6 if form == "dense" else 0.02)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ClassSimilarityLoss.learned(1), "`num_classes` must be at least 2"),
        (lambda: ClassSimilarityLoss.learned(3, 1.0), "alpha"),
        (lambda: ClassSimilarityLoss.learned(3, "auto"), "alpha"),
        (lambda: ClassSimilarityLoss.learned(3, prior=torch.eye(3)), "similarity"),
        (
            lambda: ClassSimilarityLoss.learned(3, prior=similarity.from_distances(distances.from_order(4))),
            "covers 4 classes",
        ),
        (lambda: ClassSimilarityLoss.learned(3, steps=0), "`steps`"),
        (lambda: ClassSimilarityLoss.learned(3, prior_rows=-1), "`prior_rows`"),
        (lambda: ClassSimilarityLoss.learned(3).adjust(torch.zeros(1, 3), torch.zeros(1).long()), "fixed alpha"),
    ],
)
def test_what_cannot_be_meant_is_refused(call, words):
    with pytest.raises((ValueError, TypeError), match=words):
        call()


def test_a_sparse_prior_counts_as_many_rows_as_a_dense_one(monkeypatch):
    """Unsure rows, which leave the prior a large share; one class of the others is not kept, and has the rest."""
    k = 5
    S = similarity.from_distances(distances.from_order(k))
    dense = ClassSimilarityLoss.learned(k, prior=S, prior_rows=50.0)
    monkeypatch.setattr(learned, "DENSE", 3)
    monkeypatch.setattr(learned, "KEPT", k - 2)
    sparse = ClassSimilarityLoss.learned(k, prior=S, prior_rows=50.0)
    labels = torch.arange(k).repeat(4)
    logits = -0.3 * (torch.arange(k) - labels[:, None]).abs()
    for loss_fn in (dense, sparse):
        loss_fn(logits, labels)
        loss_fn.end_epoch()
    torch.testing.assert_close(sparse.labels(), dense.labels(), atol=1e-6, rtol=0)
