"""The losses: against the definition, against PyTorch, and in every setting of a training loop."""

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from softkin import similarity, smoothing
from softkin.losses import ClassSimilarityLoss, SoftLabelCrossEntropy

K = 7


def some_labels(k=K, alpha=0.1, seed=0):
    D = np.random.default_rng(seed).random((k, k))
    return smoothing.similarity_labels(similarity.from_distances(D + D.T), alpha)


def sparse_labels(k=K, alpha=0.1, m=3, seed=0):
    V = np.random.default_rng(seed).normal(size=(k, 4))
    return smoothing.similarity_labels(similarity.from_vectors(V, top_m=m), alpha)


def brute_force(Q, logits, targets, weight=None, weight_by="class", ignore_index=-100):
    """Σ of the losses and Σ of the divisors, sample by sample and class by class, for (N, K) logits."""
    Q, logits, targets = np.asarray(Q, float), np.asarray(logits, float), np.asarray(targets)
    k = len(Q)
    w = np.ones(k) if weight is None else np.asarray(weight, float)
    losses, counts = [], []
    for z, target in zip(logits, targets, strict=True):
        if targets.ndim == 1 and target == ignore_index:
            losses.append(0.0)
            counts.append(0.0)
            continue
        t = np.eye(k)[target] if targets.ndim == 1 else target
        q = sum(t[c] * Q[c] for c in range(k))
        log_p = z - z.max() - np.log(np.exp(z - z.max()).sum())
        count = float((t * w).sum())
        if weight_by == "class":
            losses.append(-sum(w[c] * q[c] * log_p[c] for c in range(k) if w[c] * q[c] > 0))
        else:
            losses.append(-sum(q[c] * log_p[c] for c in range(k) if q[c] > 0) * count)
        counts.append(count)
    return np.array(losses), np.array(counts)


@pytest.mark.parametrize("labels", ["dense", "sparse"])
@given(st.data())
def test_it_is_its_definition(labels, data):
    seed = data.draw(st.integers(0, 10_000))
    rng = np.random.default_rng(seed)
    Q = some_labels(seed=seed) if labels == "dense" else sparse_labels(seed=seed, m=data.draw(st.integers(1, K - 1)))
    dense = Q if labels == "dense" else Q.dense()
    n = data.draw(st.integers(1, 6))
    logits = torch.from_numpy(rng.normal(size=(n, K)) * data.draw(st.sampled_from([1, 30])))
    weight = data.draw(st.sampled_from([None, rng.random(K) + 0.1]))
    weight_by = data.draw(st.sampled_from(["class", "sample"]))
    soft = data.draw(st.booleans())
    if soft:
        lam, a, b = rng.random(), rng.integers(0, K, n), rng.integers(0, K, n)
        targets = lam * np.eye(K)[a] + (1 - lam) * np.eye(K)[b]  # mixup
    else:
        targets = rng.integers(0, K, n)
        if n > 1:
            targets[0] = data.draw(st.sampled_from([targets[0], -100]))
    expected, counts = brute_force(dense, logits, targets, weight, weight_by)
    for reduction, value in (("none", expected), ("sum", expected.sum()), ("mean", expected.sum() / counts.sum())):
        loss_fn = SoftLabelCrossEntropy(Q, weight=weight, weight_by=weight_by, reduction=reduction)
        loss = loss_fn(logits, torch.from_numpy(targets))
        np.testing.assert_allclose(loss, value, rtol=1e-11, atol=1e-11)


@given(st.integers(2, 9), st.floats(0, 1), st.integers(0, 1000))
def test_equal_distances_are_pytorchs_label_smoothing(k, share, seed):
    alpha = share * (k - 1) / k * 0.999
    rng = torch.Generator().manual_seed(seed)
    logits = torch.randn(8, k, generator=rng, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(0, k, (8,), generator=rng)
    weight = torch.rand(k, generator=rng, dtype=torch.float64)
    for w in (None, weight):
        loss_fn = ClassSimilarityLoss.from_distances(torch.ones(k, k), alpha=alpha, weight=w)
        ours = loss_fn(logits, targets)
        theirs = F.cross_entropy(logits, targets, weight=w, label_smoothing=alpha * k / (k - 1))
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
        for first, other in zip(torch.autograd.grad(ours, logits), torch.autograd.grad(theirs, logits), strict=True):
            torch.testing.assert_close(first, other, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("make", [some_labels, sparse_labels])
def test_alpha_0_is_cross_entropy(make):
    loss_fn = SoftLabelCrossEntropy(make(alpha=0.0), ignore_index=3)
    logits, targets = torch.randn(20, K), torch.randint(0, K, (20,))
    torch.testing.assert_close(loss_fn(logits, targets), F.cross_entropy(logits, targets, ignore_index=3))
    soft = torch.randn(20, K).softmax(1)
    torch.testing.assert_close(loss_fn(logits, soft), F.cross_entropy(logits, soft))


@pytest.mark.parametrize("make", [some_labels, sparse_labels])
@pytest.mark.parametrize("soft", [False, True])
def test_segmentation_is_classification_pixel_by_pixel(make, soft):
    Q = make()
    logits, targets = torch.randn(2, K, 3, 4, dtype=torch.float64), torch.randint(0, K, (2, 3, 4))
    targets[0, 0, :2] = 255
    weight = torch.rand(K)
    flat_targets = targets.flatten()
    if soft:
        targets = F.one_hot(targets % K, K).movedim(-1, 1).double()
        flat_targets = targets.movedim(1, -1).reshape(-1, K)
    flat = logits.movedim(1, -1).reshape(-1, K)
    for reduction in ("mean", "sum", "none"):
        for weight_by in ("class", "sample"):
            loss_fn = SoftLabelCrossEntropy(
                Q, weight=weight, weight_by=weight_by, ignore_index=255, reduction=reduction
            )
            loss, expected = loss_fn(logits, targets), loss_fn(flat, flat_targets)
            torch.testing.assert_close(loss.flatten(), expected.flatten(), rtol=1e-12, atol=1e-12)
            assert loss.shape == ((2, 3, 4) if reduction == "none" else ())


def test_a_single_sample_without_a_batch():
    loss_fn = SoftLabelCrossEntropy(some_labels(), reduction="none")
    logits = torch.randn(K)
    torch.testing.assert_close(loss_fn(logits, torch.tensor(3)), loss_fn(logits[None], torch.tensor([3]))[0])
    torch.testing.assert_close(loss_fn(logits, F.one_hot(torch.tensor(3), K).float()), loss_fn(logits, torch.tensor(3)))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
def test_targets_of_any_integer_type(dtype):
    loss_fn = SoftLabelCrossEntropy(some_labels(), weight=torch.rand(K))
    logits, targets = torch.randn(5, K), torch.tensor([0, 1, 1, 6, 2])
    assert torch.equal(loss_fn(logits, targets.to(dtype)), loss_fn(logits, targets))


def labels_with_zeros(sparse, alpha=0.2):
    """Q whose class k shares its mass with the two classes after it alone, so that most entries are 0."""
    k = torch.arange(K)
    indices = torch.stack([(k + 1) % K, (k + 2) % K], dim=1)
    values = torch.tensor([0.75, 0.25], dtype=torch.float64).expand(K, 2)
    rows = smoothing.similarity_labels(
        similarity.SparseRows(torch.zeros(K, dtype=torch.float64), indices, values.clone(), torch.zeros(K, dtype=torch.float64)),
        alpha,
    )  # fmt: skip
    return rows if sparse else rows.dense()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("soft", "compiled", "weight_by"),
    [
        *((soft, False, weight_by) for soft in (False, True) for weight_by in (None, "class", "sample")),
        (False, True, None),
    ],
)
def test_impossible_classes(sparse, soft, compiled, weight_by):
    """A logit of −∞ adds nothing where Q is 0 and is infinite elsewhere; the gradient is that of the other classes."""
    Q = labels_with_zeros(sparse)
    dense = labels_with_zeros(False)
    rng = np.random.default_rng(0)
    n = 40
    logits = torch.tensor(rng.normal(size=(n, K)))
    targets = torch.tensor(rng.integers(0, K, n))
    targets[3] = -100
    kept = targets.clamp(min=0)
    for i in range(n):
        allowed = (dense[kept[i]] == 0).nonzero().flatten()
        logits[i, allowed[rng.integers(len(allowed))]] = -torch.inf
    logits[5, kept[5]] = -torch.inf  # and one where the label is not 0
    logits[3, :2] = -torch.inf  # of an ignored sample: class 0 stands in for it
    weight = None if weight_by is None else torch.tensor(rng.random(K))
    supplied = torch.eye(K, dtype=torch.float64)[kept] if soft else targets
    options = {} if weight_by is None else {"weight": weight, "weight_by": weight_by}
    loss_fn = SoftLabelCrossEntropy(Q, reduction="none", **options)
    call = torch.compile(loss_fn, backend="eager") if compiled else loss_fn
    z = logits.clone().requires_grad_()
    actual = call(z, supplied)
    expected, _ = brute_force(dense, logits, supplied, weight, weight_by or "class")
    np.testing.assert_allclose(actual.detach().numpy(), expected, rtol=1e-9)
    assert np.isinf(expected[5])
    finite = np.isfinite(expected)
    actual[torch.tensor(finite)].sum().backward()
    assert bool(torch.isfinite(z.grad).all())
    if weight_by is None:
        p = torch.softmax(logits, dim=1)
        difference = p - dense[kept]
        difference[~torch.tensor(finite)] = 0
        if not soft:
            difference[3] = 0
        torch.testing.assert_close(z.grad, difference)
    mean = SoftLabelCrossEntropy(Q, **options)(logits[6:], supplied[6:])
    assert bool(torch.isfinite(mean))


def test_a_weight_of_0_takes_an_impossible_class_out():
    Q = smoothing.uniform_labels(3, alpha=0.3)
    logits = torch.tensor([[1.0, 0.0, -torch.inf]])
    weight = torch.tensor([1.0, 1.0, 0.0])
    loss = SoftLabelCrossEntropy(Q, weight=weight, reduction="none")(logits, torch.tensor([0]))
    np.testing.assert_allclose(loss, brute_force(Q, logits, torch.tensor([0]), weight)[0], rtol=1e-6)
    assert torch.isinf(SoftLabelCrossEntropy(Q)(logits, torch.tensor([0])))


def test_all_ignored_is_nan_as_in_pytorch():
    logits, targets = torch.randn(3, K), torch.full((3,), -100)
    assert SoftLabelCrossEntropy(some_labels())(logits, targets).isnan()
    assert F.cross_entropy(logits, targets).isnan()
    assert float(SoftLabelCrossEntropy(some_labels(), reduction="sum")(logits, targets)) == 0


@pytest.mark.parametrize("make", [some_labels, sparse_labels])
def test_gradients(make):
    for weight, weight_by in ((None, "class"), (torch.rand(K) + 0.1, "class"), (torch.rand(K) + 0.1, "sample")):
        loss_fn = SoftLabelCrossEntropy(make(), weight=weight, weight_by=weight_by)
        logits = torch.randn(4, K, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(lambda z, f=loss_fn: f(z, torch.tensor([0, 2, 6, -100])), (logits,))
        mixed = 0.3 * F.one_hot(torch.tensor([0, 2, 6, 1]), K) + 0.7 * F.one_hot(torch.tensor([5, 2, 1, 1]), K)
        assert torch.autograd.gradcheck(lambda z, f=loss_fn, t=mixed.double(): f(z, t), (logits,))


def test_the_gradient_is_softmax_minus_label():
    Q = some_labels()
    logits = torch.randn(1, K, dtype=torch.float64, requires_grad=True)
    SoftLabelCrossEntropy(Q)(logits, torch.tensor([4])).backward()
    torch.testing.assert_close(logits.grad[0], logits.detach().softmax(1)[0] - Q[4])


def test_weights_by_sample_keep_alpha():
    """Weighing by class gives rare classes' samples another smoothing; by sample it stays."""
    Q = some_labels(alpha=0.2)
    weight = torch.tensor([1.0, 1, 1, 1, 1, 1, 100.0])
    logits = torch.randn(1, K, dtype=torch.float64, requires_grad=True)
    plain = torch.autograd.grad(SoftLabelCrossEntropy(Q)(logits, torch.tensor([0])), logits)[0]
    sample = SoftLabelCrossEntropy(Q, weight=weight, weight_by="sample")(logits, torch.tensor([0]))
    torch.testing.assert_close(torch.autograd.grad(sample, logits)[0], plain)
    by_class = SoftLabelCrossEntropy(Q, weight=weight)(logits, torch.tensor([0]))
    assert not torch.allclose(torch.autograd.grad(by_class, logits)[0], plain)


def test_integer_and_one_hot_targets_have_one_divisor():
    """PyTorch divides weighted soft targets by N and weighted integer targets by Σw."""
    weight = torch.rand(K) + 0.5
    loss_fn = SoftLabelCrossEntropy(some_labels(), weight=weight)
    logits, targets = torch.randn(9, K), torch.arange(9) % K
    torch.testing.assert_close(loss_fn(logits, targets), loss_fn(logits, F.one_hot(targets, K).float()))


@pytest.mark.parametrize("make", [some_labels, sparse_labels])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_result_has_the_logits_type(make, dtype):
    loss_fn = SoftLabelCrossEntropy(make())
    logits, targets = torch.randn(5, K, dtype=torch.float64).to(dtype), torch.arange(5)
    loss = loss_fn(logits, targets)
    assert loss.dtype == dtype
    exact = loss_fn(logits.double(), targets)
    torch.testing.assert_close(loss.double(), exact, rtol=max(torch.finfo(dtype).eps, 1e-12), atol=0)


def test_autocast():
    model, loss_fn = nn.Linear(4, K), SoftLabelCrossEntropy(some_labels())
    x, targets = torch.randn(6, 4), torch.arange(6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(x)
        assert logits.dtype == torch.bfloat16
        loss = loss_fn(logits, targets)
        soft = loss_fn(logits, F.one_hot(targets, K).float())
        assert loss.dtype == F.cross_entropy(logits, targets).dtype == torch.float32
    torch.testing.assert_close(loss, loss_fn(logits.double(), targets).float(), rtol=1e-6, atol=0)
    torch.testing.assert_close(soft, loss, rtol=1e-6, atol=0)
    loss.backward()
    assert model.weight.grad.isfinite().all()


def test_inference_mode_first_then_training():
    """A validation pass before the first step must not leave tensors that training cannot use."""
    loss_fn = SoftLabelCrossEntropy(some_labels(), weight=torch.rand(K))
    logits, targets = torch.randn(5, K), torch.arange(5)
    with torch.inference_mode():
        loss_fn(logits, targets)
    logits.requires_grad_()
    loss_fn(logits, targets).backward()
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("options", [{}, {"weight": torch.arange(1.0, K + 1), "weight_by": "sample"}])
def test_batches_divided_by_the_items_of_all_add_up_to_one_large_batch(soft, options):
    torch.manual_seed(0)
    loss_fn, total = (
        SoftLabelCrossEntropy(some_labels(), **options),
        SoftLabelCrossEntropy(some_labels(), reduction="sum", **options),
    )
    logits = torch.randn(12, K, dtype=torch.float64)
    targets = torch.rand(12, K, dtype=torch.float64).softmax(dim=1) if soft else torch.arange(12) % K
    if not soft:
        targets[[3, 7]] = -100
    items = 12 if soft else 10
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # smooth targets, on purpose
        expected = total(logits, targets) / items
        for count in (items, torch.tensor(items)):
            parts = [
                loss_fn(logits[rows], targets[rows], num_items_in_batch=count) for rows in torch.arange(12).split(5)
            ]
            assert sum(parts) == pytest.approx(float(expected), rel=1e-12)


def test_a_hugging_face_output_and_count_are_taken():
    from types import SimpleNamespace

    loss_fn, logits, targets = SoftLabelCrossEntropy(some_labels()), torch.randn(5, K), torch.arange(5)
    assert loss_fn(SimpleNamespace(logits=logits), targets, num_items_in_batch=5) == pytest.approx(
        float(loss_fn(logits, targets))
    )
    assert loss_fn(SimpleNamespace(logits=logits), targets, num_items_in_batch=None) == loss_fn(logits, targets)
    with pytest.raises(TypeError, match="logits must be a tensor or have one as `.logits`, got dict"):
        loss_fn({"logits": logits}, targets)
    with pytest.raises(ValueError, match="`num_items_in_batch` divides a mean"):
        SoftLabelCrossEntropy(some_labels(), reduction="sum")(logits, targets, num_items_in_batch=5)


@pytest.mark.parametrize("make", [some_labels, sparse_labels])
def test_an_empty_batch_is_as_in_pytorch(make):
    loss_fn = SoftLabelCrossEntropy(make())
    for shape in ((0, K), (0, K, 2, 2)):
        logits = torch.randn(shape, requires_grad=True)
        targets = torch.zeros(shape[:1] + shape[2:], dtype=torch.int64)
        assert loss_fn(logits, targets).isnan()
        assert F.cross_entropy(logits, targets).isnan()
        assert loss_fn(logits, torch.zeros(shape)).isnan()


@pytest.mark.slow
@pytest.mark.parametrize("make", [some_labels, sparse_labels])
def test_compile(make):
    torch.compiler.reset()
    for weight in (None, torch.rand(K) + 0.1):
        loss_fn = SoftLabelCrossEntropy(make(), weight=weight)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the compiler's own
            compiled = torch.compile(loss_fn, fullgraph=True, backend="aot_eager")
            logits = torch.randn(5, K, requires_grad=True)
            loss = compiled(logits, torch.tensor([0, 1, 2, -100, 4]))
            loss.backward()
        expected = loss_fn(logits, torch.tensor([0, 1, 2, -100, 4]))
        torch.testing.assert_close(loss, expected)
        torch.testing.assert_close(logits.grad, torch.autograd.grad(expected, logits)[0])


def test_readable():
    assert repr(SoftLabelCrossEntropy(some_labels())) == "SoftLabelCrossEntropy(num_classes=7, reduction='mean')"
    loss_fn = ClassSimilarityLoss.from_names(["cat", "dog", "car"], alpha=0.2, beta=1.0, weight=[1, 2, 3])
    assert repr(loss_fn) == "ClassSimilarityLoss(alpha=0.2, num_classes=3, reduction='mean', weight_by='class')"


@pytest.mark.parametrize("make", [some_labels, sparse_labels])
def test_double_smoothing_warns_once_and_says_the_effective_label(make):
    Q = make()
    dense = Q if make is some_labels else Q.dense()
    loss_fn = SoftLabelCrossEntropy(Q)
    already = smoothing.uniform_labels(K, 0.1)[torch.tensor([2, 2])].float()
    effective = float((already[0].double() @ dense)[2])
    with pytest.warns(
        UserWarning, match=f"sample 0 has 7 non-zero.*class 2 is {effective:.4g} where the target has 0.9143"
    ):
        loss_fn(torch.randn(2, K), already)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss_fn(torch.randn(2, K), already)


def test_the_guard_looks_past_the_first_batch_and_points_at_the_caller():
    loss_fn = SoftLabelCrossEntropy(some_labels())
    loss_fn(torch.randn(2, K), torch.eye(K)[:2])
    three = torch.zeros(1, K)
    three[0, :3] = torch.tensor([0.5, 0.3, 0.2])
    with pytest.warns(UserWarning, match="sample 0 has 3 non-zero entries") as caught:
        loss_fn(torch.randn(1, K), three)
    assert caught[0].filename == __file__


def test_mixtures_of_two_and_alpha_0_do_not_warn():
    mixed = 0.5 * torch.eye(K)[:2] + 0.5 * torch.eye(K)[1:3]
    SoftLabelCrossEntropy(some_labels())(torch.randn(2, K), mixed)
    SoftLabelCrossEntropy(some_labels(alpha=0.0))(torch.randn(2, K), torch.full((2, K), 1 / K))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda f: f(torch.randn(2, 5), torch.tensor([0, 1])), ValueError, "cover 7 classes but the logits have 5; was the matrix"),
        (lambda f: f(torch.randn(2, K), torch.tensor([0, 7])), ValueError, "from 0 to 6 or ignore_index=-100, got 7"),
        (lambda f: f(torch.randn(2, K), torch.tensor([0, -1])), ValueError, "from 0 to 6 or ignore_index=-100, got -1"),
        (lambda f: f(torch.randn(2, K), torch.tensor([0, 1, 2])), ValueError, r"must have shape \(2,\), got \(3,\)"),
        (lambda f: f(torch.randn(2, K), torch.tensor([0.0, 1.0])), ValueError, r"shaped as the logits, \(2, 7\), got \(2,\)"),
        (lambda f: f(torch.randn(2, K), torch.tensor([True, False])), TypeError, "integers or probabilities, got torch.bool"),
        (lambda f: f(torch.randn(2, K), np.array([0, 1])), TypeError, "targets must be a tensor, got ndarray"),
        (lambda f: f(torch.tensor(1.0), torch.tensor(0)), ValueError, "got a single number"),
        (lambda f: ClassSimilarityLoss.from_names(["cat", "dog"], label_smoothing=0.1), TypeError, "unexpected keyword argument 'label_smoothing'"),
        (lambda f: SoftLabelCrossEntropy(similarity.SparseRows(torch.ones(3), torch.tensor([[1], [2], [0]]), torch.ones(3, 1), torch.ones(3))), ValueError, "rows that sum to 1, but row 0 sums to 3"),
        (lambda f: SoftLabelCrossEntropy(torch.ones(2, 3)), ValueError, "`soft_labels` must be a square"),
        (lambda f: SoftLabelCrossEntropy(torch.ones(2, 2)), ValueError, "`soft_labels` must have rows that sum to 1"),
        (lambda f: SoftLabelCrossEntropy(-torch.eye(2)), ValueError, "`soft_labels` must not be negative"),
        (lambda f: SoftLabelCrossEntropy(torch.eye(2), reduction="avg"), ValueError, "'mean', 'sum' or 'none', got 'avg'"),
        (lambda f: SoftLabelCrossEntropy(torch.eye(2), weight_by="x"), ValueError, "'class' or 'sample', got 'x'"),
        (lambda f: SoftLabelCrossEntropy(torch.eye(2), weight=[1, 2, 3]), ValueError, r"each of 2 classes, got shape \(3,\)"),
        (lambda f: SoftLabelCrossEntropy(torch.eye(2), weight=[1, -2]), ValueError, "finite and not negative"),
        (lambda f: ClassSimilarityLoss(torch.eye(2).flip(0), alpha=1.5), ValueError, "`alpha` must be"),
        (lambda f: ClassSimilarityLoss.from_distances(torch.ones(3, 3), beta=-1), ValueError, "`beta` must be"),
    ],
)  # fmt: skip
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words):
        call(SoftLabelCrossEntropy(some_labels()))


def test_very_many_classes_train():
    """K = 5,000 in the suite; benchmarks/core.py trains 100,000."""
    k, width = 5_000, 16
    V = torch.randn(k, width)
    loss_fn = ClassSimilarityLoss(similarity.from_vectors(V, top_m=32), alpha=0.1)
    head = nn.Linear(width, k)
    x, y = V[:64], torch.arange(64)
    optimizer = torch.optim.SGD(head.parameters(), lr=1.0)
    history = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = loss_fn(head(x), y)
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    assert history[-1] < history[0]
    mixed = torch.zeros(64, k)
    mixed[torch.arange(64), y] = 0.25
    mixed[torch.arange(64), y + 100] = 0.75
    value = loss_fn(head(x).double(), mixed)
    expected = 0.25 * loss_fn(head(x).double(), y) + 0.75 * loss_fn(head(x).double(), y + 100)
    torch.testing.assert_close(value, expected, rtol=1e-10, atol=0)


def test_frameworks_find_probabilities_where_they_look_for_them():
    """Skorch asks whether a loss is an nn.CrossEntropyLoss, fastai for its ``activation`` and ``decodes``."""
    loss_fn = SoftLabelCrossEntropy(smoothing.uniform_labels(3, 0.1), weight=torch.ones(3), reduction="sum")
    assert isinstance(loss_fn, nn.CrossEntropyLoss)
    assert (loss_fn.reduction, loss_fn.ignore_index, loss_fn.label_smoothing) == ("sum", -100, 0.0)
    z = torch.randn(4, 3, 5)
    torch.testing.assert_close(loss_fn.activation(z).sum(1), torch.ones(4, 5))
    assert (loss_fn.decodes(z) == z.argmax(1)).all()


@pytest.mark.parametrize("soft", [False, True])
def test_a_weight_of_zero_cancels_an_infinite_loss(soft):
    loss_fn = SoftLabelCrossEntropy(
        smoothing.uniform_labels(3, 0.1), weight=torch.tensor([0.0, 1.0, 1.0]), weight_by="sample", reduction="none"
    )
    z = torch.tensor([[0.0, 0.0, -torch.inf], [1.0, 0.0, 0.0]], requires_grad=True)
    targets = torch.tensor([0, 1])
    losses = loss_fn(z, F.one_hot(targets, 3).float() if soft else targets)
    assert losses[0] == 0
    assert torch.isfinite(losses[1])
    losses.sum().backward()
    assert (z.grad[0] == 0).all()
