"""``alpha="auto"``: the rule, the labels that follow it, and everything that a training loop does with a loss."""

import copy
import json
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from softkin import losses, similarity, smoothing
from softkin.losses import ClassSimilarityLoss, SoftLabelCrossEntropy, soft_labels
from softkin.losses.soft_labels import AutoAlpha, validation_gap

K = 7


def similarities(*, sparse=False, seed=0):
    vectors = np.random.default_rng(seed).normal(size=(K, 4))
    return similarity.from_vectors(vectors, top_m=3 if sparse else None)


def validation(n=50, seed=0, scale=3.0):
    """Logits, and labels that agree with two thirds of them."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, K)) * scale
    labels = np.where(rng.random(n) < 2 / 3, logits.argmax(axis=1), rng.integers(0, K, n))
    return torch.from_numpy(logits), torch.from_numpy(labels)


def twin(logits, labels):
    """Mean confidence − accuracy, row by row."""
    gap = 0.0
    for row, label in zip(np.asarray(logits, float), np.asarray(labels), strict=True):
        p = np.exp(row - row.max()) / np.exp(row - row.max()).sum()
        gap += p.max() - (p.argmax() == label)
    return gap / len(labels)


@given(st.floats(0, 0.5), st.floats(0.1, 2), st.integers(1, 40), st.integers(0, 1000), st.sampled_from([0.1, 3, 50]))
def test_alpha_moves_by_the_gap_and_stays_in_its_bounds(start, rate, n, seed, scale):
    logits, labels = validation(n, seed, scale)
    loss_fn = ClassSimilarityLoss(similarities(), alpha=AutoAlpha(start=start, rate=rate))
    assert loss_fn.alpha == start
    expected = min(0.5, max(0.0, start + rate * twin(logits, labels)))
    assert loss_fn.adjust(logits, labels) == pytest.approx(expected, abs=1e-12)
    assert loss_fn.alpha == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("sparse", [False, True])
def test_the_labels_are_those_of_the_alpha_where_it_stands(sparse):
    S = similarities(sparse=sparse)
    loss_fn = ClassSimilarityLoss(S, alpha=AutoAlpha(start=0.2))
    logits, targets = torch.randn(5, K), torch.arange(5)
    alphas = [loss_fn.alpha]
    for seed in range(4):
        fixed = ClassSimilarityLoss(S, alpha=loss_fn.alpha)
        for name, buffer in fixed.named_buffers():
            assert torch.equal(buffer, loss_fn.get_buffer(name)), name
        assert loss_fn(logits, targets) == fixed(logits, targets)
        alphas.append(loss_fn.adjust(*validation(seed=seed, scale=0.9 if seed == 2 else 3.0)))
    assert len(set(alphas)) == 5, alphas


def test_other_labels_keep_their_proportions():
    uniform = SoftLabelCrossEntropy(smoothing.uniform_labels(K, 0.3), alpha="auto")
    uniform.adjust(*validation())
    expected = smoothing.uniform_labels(K, uniform.alpha * K / (K - 1))  # there α is spread over all K
    torch.testing.assert_close(uniform.soft_labels, expected, rtol=1e-12, atol=1e-15)
    # Rows may differ in how much they are smoothed; α is their mean, and no row may lose its own class.
    Q = torch.tensor([[0.9, 0.1, 0.0], [0.3, 0.4, 0.3], [0.0, 0.0, 1.0]])
    loss_fn = SoftLabelCrossEntropy(Q, alpha=AutoAlpha(rate=100))
    loss_fn.adjust(np.eye(3) * 9, np.array([1, 2, 0]))
    assert loss_fn.alpha == pytest.approx(0.7 / 3 / 0.6)
    expected = torch.tensor([[5 / 6, 1 / 6, 0.0], [0.5, 0.0, 0.5], [0.0, 0.0, 1.0]], dtype=torch.float64)
    torch.testing.assert_close(loss_fn.soft_labels, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.filterwarnings("ignore:alpha=.auto. has stayed at 0")
def test_an_under_confident_network_is_not_smoothed():
    loss_fn = ClassSimilarityLoss(similarities(), alpha="auto")
    right = torch.arange(K)
    for _ in range(3):
        loss_fn.adjust(torch.eye(K), right)
    assert loss_fn.alpha == 0
    assert torch.equal(loss_fn.soft_labels, torch.eye(K, dtype=torch.float64))
    loss_fn.adjust(10 * torch.eye(K), right.roll(1))  # and comes back from there at once
    assert loss_fn.alpha == pytest.approx(0.5, abs=1e-3)


def test_rows_may_be_numpy_half_precision_pixels_or_ignored():
    logits, labels = validation(24)
    expected = twin(logits, labels)
    pixels = logits.reshape(4, 2, 3, K).movedim(-1, 1), labels.reshape(4, 2, 3)
    for z, y in ((logits.numpy(), labels.numpy()), (logits, labels.to(torch.int32)), pixels):
        assert validation_gap(z, y, num_classes=K) == pytest.approx(expected, abs=1e-12)
    half = logits.to(torch.bfloat16)
    assert validation_gap(half, labels, num_classes=K) == pytest.approx(twin(half.double(), labels), abs=1e-12)
    ignored = torch.cat([labels, torch.tensor([-100])])
    more = torch.cat([logits, logits[:1]])
    assert validation_gap(more, ignored, num_classes=K) == pytest.approx(expected, abs=1e-12)


def test_what_cannot_be_adjusted_is_refused():
    logits, labels = validation(5)
    fixed, loss_fn = ClassSimilarityLoss(similarities()), ClassSimilarityLoss(similarities(), alpha="auto")
    with pytest.raises(ValueError, match="this loss has a fixed alpha; make it with alpha='auto'"):
        fixed.adjust(logits, labels)
    with pytest.raises(ValueError, match="at least 1 row that is not ignored, got none"):
        loss_fn.adjust(logits[:0], labels[:0])
    with pytest.raises(ValueError, match="`validation_logits` must be finite, but 1 rows .* the first is row 3"):
        loss_fn.adjust(logits.index_fill(0, torch.tensor([3]), float("nan")), labels)
    with pytest.raises(ValueError, match=r"`validation_logits` must have shape \(N, 7\)"):
        loss_fn.adjust(logits[:, :3], labels)
    with pytest.raises(ValueError, match=r"`validation_labels` must have shape \(5,\), got \(4,\)"):
        loss_fn.adjust(logits, labels[:4])
    with pytest.raises(ValueError, match="`validation_labels` must be from 0 to 6 or ignore_index=-100, got 7"):
        loss_fn.adjust(logits, torch.full((5,), 7))
    with pytest.raises(TypeError, match="must be integers"):
        loss_fn.adjust(logits, labels.double())
    assert loss_fn.alpha == 0.02
    with pytest.raises(ValueError, match="or 'auto', got 'automatic'"):
        ClassSimilarityLoss(similarities(), alpha="automatic")
    with pytest.raises(
        ValueError, match="`alpha` must be None or 'auto', as `soft_labels` have theirs already, got 0.1"
    ):
        SoftLabelCrossEntropy(smoothing.uniform_labels(3), alpha=0.1)
    with pytest.raises(ValueError, match="must have mass on other classes for alpha='auto', got one-hot rows"):
        SoftLabelCrossEntropy(torch.eye(3), alpha="auto")
    for options, words in (
        ({"start": 1.0}, "`start` must be at least 0 and below 1, got 1"),
        ({"most": -0.1}, "`most` must be"),
        ({"rate": 0}, "`rate` must be finite and above 0, got 0"),
        ({"start": 0.6}, "`start` must not exceed `most`, 0.5, got 0.6"),
    ):
        with pytest.raises(ValueError, match=words):
            AutoAlpha(**options)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_checkpoint_resumes_to_the_bit(sparse, tmp_path):
    def model():
        return nn.ModuleDict({"loss": ClassSimilarityLoss(similarities(sparse=sparse), alpha="auto")})

    whole, first, second = model(), model(), model()
    for seed in range(3):
        whole["loss"].adjust(*validation(seed=seed))
        first["loss"].adjust(*validation(seed=seed))
    torch.save(first.state_dict(), tmp_path / "state.pt")
    second.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    for seed in range(3, 6):
        assert whole["loss"].adjust(*validation(seed=seed)) == second["loss"].adjust(*validation(seed=seed))
    for name, buffer in whole["loss"].named_buffers():
        assert torch.equal(buffer, second["loss"].get_buffer(name))
    assert pickle.loads(pickle.dumps(whole))["loss"].alpha == whole["loss"].alpha
    assert copy.deepcopy(whole)["loss"].alpha == whole["loss"].alpha


def test_states_of_fixed_and_moving_alphas_load_strictly_in_both_directions():
    S = similarities()
    fixed, moving = (ClassSimilarityLoss(S, alpha=alpha, persistent=True) for alpha in (0.3, "auto"))
    assert set(fixed.state_dict()) == {"soft_labels"}  # as in versions before "auto"
    moving.load_state_dict(fixed.state_dict())
    assert moving.alpha == pytest.approx(0.3)
    moving.adjust(*validation())
    fixed.load_state_dict(moving.state_dict())
    assert fixed.alpha == pytest.approx(moving.alpha)
    assert torch.equal(fixed.soft_labels, moving.soft_labels)
    with pytest.raises(RuntimeError, match="Unexpected"):
        fixed.load_state_dict({**fixed.state_dict(), "other": torch.zeros(1)})

    light, other = ClassSimilarityLoss(S, alpha="auto"), ClassSimilarityLoss(S, alpha="auto")
    light.adjust(*validation())
    assert set(light.state_dict()) == {"auto_alpha"}
    other.load_state_dict(light.state_dict())
    assert other.alpha == light.alpha
    assert torch.equal(other.soft_labels, light.soft_labels)
    other.load_state_dict({})  # a checkpoint from before the loss was part of the model
    assert other.alpha == light.alpha
    other.load_state_dict(fixed.state_dict())
    assert other.alpha == pytest.approx(fixed.alpha)


def test_it_is_compiled_once_and_moves_all_the_same():
    torch.compiler.reset()
    loss_fn = ClassSimilarityLoss(similarities(), alpha="auto")
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    logits, targets = torch.randn(5, K), torch.arange(5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the compiler's own
        compiled = torch.compile(loss_fn, fullgraph=True, backend=backend)
        seen = set()
        for seed in range(4):
            torch.testing.assert_close(compiled(logits, targets), loss_fn(logits, targets))
            seen.add(float(compiled(logits, targets)))
            loss_fn.adjust(*validation(seed=seed))
    assert len(seen) == 4
    assert len(graphs) == 1


def test_autocast_inference_mode_and_casts_of_the_module():
    loss_fn = ClassSimilarityLoss(similarities(), alpha="auto")
    twin_fn = ClassSimilarityLoss(similarities(), alpha="auto").to(torch.float16)
    logits, targets = torch.randn(5, K, requires_grad=True), torch.arange(5)
    for seed in range(2):
        with torch.inference_mode():
            loss_fn(logits, targets)
            loss_fn.adjust(*validation(seed=seed))
        with torch.autocast("cpu", torch.bfloat16):
            twin_fn.adjust(*validation(seed=seed))
            loss = loss_fn(logits.bfloat16(), targets)
        assert loss.dtype == torch.float32
        loss.backward()
        assert loss_fn.alpha == twin_fn.alpha
        assert loss_fn(logits, targets) == ClassSimilarityLoss(similarities(), loss_fn.alpha)(logits, targets)


def test_readable():
    loss_fn = ClassSimilarityLoss.from_names(["cat", "dog", "car", "bus", "rose"], alpha="auto")
    assert repr(loss_fn) == "ClassSimilarityLoss(alpha=0.02 (auto), num_classes=5, reduction='mean')"
    assert ClassSimilarityLoss.from_distances(torch.ones(3, 3), alpha="auto").alpha == 0.02


RANK = """
import json, sys
import torch, torch.distributed as dist
from softkin import losses, smoothing
rank, meeting = int(sys.argv[1]), sys.argv[2]
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
loss_fn = losses.SoftLabelCrossEntropy(smoothing.uniform_labels(7), alpha="auto")
generator = torch.Generator().manual_seed(0)
logits = 0.8 * torch.randn(31, 7, generator=generator, dtype=torch.float64)
labels = torch.randint(0, 7, (31,), generator=generator)
mine = slice(0, 9) if rank == 0 else slice(9, 31)
print(json.dumps(loss_fn.adjust(logits[mine], labels[mine])))
print(json.dumps(loss_fn.adjust(logits, labels)))  # all rows on every rank
print(json.dumps(loss_fn.adjust(logits[: 31 * rank], labels[: 31 * rank])))  # one rank has none
try:
    loss_fn.adjust(logits * float("nan") if rank else logits, labels)
except ValueError as error:
    print(json.dumps(str(error)))
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_all_ranks_come_to_the_same_alpha(tmp_path):
    script = tmp_path / "rank.py"
    script.write_text(RANK)
    running = [
        subprocess.Popen(
            [sys.executable, str(script), str(rank), str(tmp_path / "meeting")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    outputs = []
    for process in running:
        out, err = process.communicate(timeout=240)
        assert process.returncode == 0, err
        outputs.append([json.loads(line) for line in out.splitlines()])
    (*alphas, first_error), (*others, second_error) = outputs
    assert alphas == others
    generator = torch.Generator().manual_seed(0)
    logits = 0.8 * torch.randn(31, 7, generator=generator, dtype=torch.float64)
    gap = twin(logits, torch.randint(0, 7, (31,), generator=generator))
    assert alphas == pytest.approx([0.02 + steps * gap for steps in (0.5, 1, 1.5)], abs=1e-12)
    assert "rank 1" in first_error
    assert "must be finite" in first_error
    assert "must be finite" in second_error


def loss_of_three():
    return losses.SoftLabelCrossEntropy(smoothing.uniform_labels(3), alpha="auto")


def test_a_loss_that_is_never_adjusted_says_so_once(monkeypatch):
    monkeypatch.setattr(soft_labels, "UNADJUSTED", 4)
    loss_fn = loss_of_three()
    logits, targets = torch.zeros(2, 3), torch.tensor([0, 1])
    for _ in range(3):
        loss_fn(logits, targets)
    with pytest.warns(UserWarning, match="alpha='auto' is still 0.02, .* because `adjust` was never called"):
        loss_fn(logits, targets)
    for _ in range(9):
        loss_fn(logits, targets)
    adjusted = loss_of_three()
    adjusted.adjust(logits, targets)
    evaluated = loss_of_three().eval()
    for _ in range(9):
        adjusted(logits, targets)
        evaluated(logits, targets)


def test_alpha_that_stays_at_0_says_why_once():
    loss_fn = loss_of_three()
    unsure, targets = torch.tensor([[1.0, 0.0, 0.0]] * 4), torch.zeros(4, dtype=torch.int64)  # 58 % sure, all right
    loss_fn.adjust(unsure, targets)
    loss_fn.adjust(unsure, targets)
    with pytest.warns(UserWarning, match="stayed at 0 for 3 epochs: .* 42.4 points less sure than it is right"):
        loss_fn.adjust(unsure, targets)
    loss_fn.adjust(unsure, targets)
    assert loss_fn.alpha == 0
