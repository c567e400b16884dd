"""One better line in a training loop: ``python examples/train_digits.py``.

A small network learns scikit-learn's digits from 5 images a class, with four losses. From so few images it is surer
than it is right; the table shows by how much. Half of the other images serve to choose α, the other half only to test.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from softkin import distances
from softkin.lab import data
from softkin.losses import ClassSimilarityLoss

SEEDS, PER_CLASS, BETA = 5, 5, 2.0
ALPHAS = (0.01, 0.02, 0.05, 0.1)

digits = data.load("digits")
images = torch.from_numpy(digits.values).flatten(1) / 16
labels = torch.from_numpy(digits.labels)


def split(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rows to train on (PER_CLASS of each class), to choose α on, and to test on."""
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    train = torch.cat([order[labels[order] == k][:PER_CLASS] for k in range(10)])
    validation, test = order[~torch.isin(order, train)].chunk(2)
    return train, validation, test


def trained(loss_fn: nn.Module, rows: Tensor, seed: int) -> nn.Module:
    """The loop of any tutorial; only ``loss_fn`` differs."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(100):
        optimizer.zero_grad()
        loss_fn(model(images[rows]), labels[rows]).backward()
        optimizer.step()
    return model


def loss_of(method: str, alpha: float, rows: Tensor) -> nn.Module:
    if method == "uniform smoothing":
        return nn.CrossEntropyLoss(label_smoothing=alpha)
    if method == "similar words":
        return ClassSimilarityLoss.from_names(digits.class_names, alpha=alpha, beta=BETA)
    if method == "similar pixels (L2)":
        D = distances.from_images(images[rows], labels[rows], p=2)  # training images only
        return ClassSimilarityLoss.from_distances(D, alpha=alpha, beta=BETA)
    return nn.CrossEntropyLoss()


nlls: dict[str, Tensor] = {}
print(f"{'labels':20} {'accuracy':>15} {'confidence':>15} {'NLL':>15}   mean ± sd over {SEEDS} seeds; α chosen")
for method in ("one-hot", "uniform smoothing", "similar pixels (L2)", "similar words"):
    results, chosen = [], []
    for seed in range(SEEDS):
        train, validation, test = split(seed)
        models = {
            a: trained(loss_of(method, a, train), train, seed) for a in ((0.0,) if method == "one-hot" else ALPHAS)
        }
        with torch.no_grad():
            nll = {
                a: float(F.cross_entropy(model(images[validation]), labels[validation])) for a, model in models.items()
            }
            alpha = min(nll, key=nll.__getitem__)
            logits = models[alpha](images[test])
        confidence, predicted = logits.softmax(1).max(1)
        right = (predicted == labels[test]).float()
        results.append([float(right.mean()), float(confidence.mean()), float(F.cross_entropy(logits, labels[test]))])
        chosen.append(alpha)
    table = torch.tensor(results)
    nlls[method] = table[:, 2]
    cells = [f"{m:.3f} ± {s:.3f}" for m, s in zip(table.mean(0).tolist(), table.std(0).tolist(), strict=True)]
    print(f"{method:20} {cells[0]:>15} {cells[1]:>15} {cells[2]:>15}   {', '.join(f'{a:g}' for a in chosen)}")
print("Calibrated: confidence equals accuracy. Differences within a few sd of each other are ties.")
best = min(nlls, key=lambda method: float(nlls[method].mean()))
gains = nlls["one-hot"] - nlls[best]
print(f"Verdict: {best} has the lowest NLL, {gains.mean():.3f} ± {gains.std():.3f} below one-hot on the same splits.")
