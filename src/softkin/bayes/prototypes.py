"""Distance-based learning from errors: classes are centres of their samples, and confidence is nearness to them."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from softkin._core.modes import evaluating
from softkin._core.randomness import seeded
from softkin.bayes.posterior import Companion, TrainingRows, check_count, check_network, last_layer, normal

WIDEST = 6.0  # bound of |ln σ²|: σ stays below 20
NEAR = 1e-12  # added to squared distances, because the square root has no derivative at 0


class Prototypes(Companion):
    r"""A network whose last layer is replaced by distances from class centres.

    With h(x) the input of the former last linear layer, and c_k the mean of h over the training rows of class k,

    .. math:: p(y{=}k|x) = \frac1U \sum_u \mathrm{softmax}_k\big(-\lVert h(x) + \sigma(x) \odot \varepsilon_u -
              c_k \rVert\big), \qquad \varepsilon_u \sim N(0, I)

    σ² = exp g(h), |g| < 6, comes from a confidence model g with one hidden layer. It learns only from training samples
    that are nearest to another class's centre: for those it makes σ so wide that the true class becomes likely. So
    samples that resemble errors in training get low confidence. The ε are drawn once, from the seed.

    In training, ``forward`` returns (h, ln σ²) side by side for ``distance_loss``; otherwise it returns ln p.

    Args:
        model: A network; its last ``nn.Linear`` is replaced, in place, by the identity.
        num_classes: K.
        draws: U, the number of draws.
        seed: Seed for the ε and for the confidence model's initial weights.

    References:
        Xing et al., Distance-Based Learning from Errors for Confidence Calibration, 2019, arXiv:1912.01730, sec. 3, and
        the authors' code (Euclidean distance, not squared; U = 10). They draw episodes of support and query samples.
        Here each batch is an episode in which every sample is a query and is left out of its own class's centre. Their
        predicted class is the centre nearest to h; ours is the likeliest class of the mean, which can differ if σ is
        large.
    """

    centres: Tensor
    noise: Tensor

    def __init__(self, model: nn.Module, num_classes: int, *, draws: int = 10, seed: int = 0) -> None:
        super().__init__(check_network(model))
        layer = last_layer(model, num_classes)
        width = layer.in_features
        self.width = width
        _replace(model, layer, nn.Identity())
        with seeded(seed):
            self.confidence = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        self.confidence.to(layer.weight.device)
        self.register_buffer("centres", torch.zeros(num_classes, width, device=layer.weight.device))
        self.register_buffer("noise", normal(width, seed, "prototypes", rows=check_count(draws, "draws")))
        self.noise = self.noise.to(layer.weight.device)

    @property
    def outputs(self) -> int:
        return 2 * self.width

    def forward(self, *inputs: Any, **named: Any) -> Tensor:
        output = self.network(*inputs, **named)
        h: Tensor = getattr(output, "logits", output)
        # Bounded smoothly: the loss of an error falls as σ grows; the authors clip gradients instead.
        log_variance: Tensor = WIDEST * torch.tanh(self.confidence(h.detach()) / WIDEST)
        if self.training:
            return torch.cat([h, log_variance], dim=1)
        spread = (0.5 * log_variance).exp()
        total = torch.zeros(len(h), len(self.centres), device=h.device, dtype=h.dtype)
        for epsilon in self.noise:
            total += (-distances(h + spread * epsilon, self.centres)).softmax(dim=1)
        return (total / len(self.noise)).clamp_min(torch.finfo(total.dtype).tiny).log()

    @torch.no_grad()
    def end_epoch(self, share: float, rows: TrainingRows, *, looked_at: bool) -> None:
        """Update the centres if predictions are needed."""
        if not looked_at:
            return
        with evaluating(self):
            sums, counts = torch.zeros_like(self.centres), torch.zeros(len(self.centres), device=self.centres.device)
            for inputs, labels in rows():
                mine = F.one_hot(labels, len(self.centres)).to(sums.dtype)
                sums += mine.T @ getattr(output := self.network(inputs), "logits", output)
                counts += mine.sum(dim=0)
        # The centre of a class without training rows is placed far away.
        self.centres.copy_(torch.where(counts[:, None] > 0, sums / counts.clamp_min(1)[:, None], 1e6))


def distances(points: Tensor, centres: Tensor) -> Tensor:
    """‖z_i − c_k‖, shape (N, K).

    Through a matrix product, which in float64 cancels nothing that float32 has; MPS, without float64, subtracts.
    """
    if points.device.type == "mps":
        return ((points[:, None, :] - centres[None, :, :]).square().sum(dim=2) + NEAR).sqrt()
    return (torch.cdist(points.double(), centres.double()).square() + NEAR).sqrt().to(points.dtype)


def distance_loss(outputs: Tensor, labels: Tensor, num_classes: int, noise: Tensor) -> Tensor:
    """Σ_i −ln p(y_i|h_i), plus Σ −ln p(y_i|z_i) over misclassified samples, which trains only the confidence model.

    Centres are means over the batch, and a sample is left out of its own class's centre. A sample that is the only one
    of its class has no such centre and is ignored.

    Args:
        outputs: (N, 2d), (h, ln σ²) side by side.
        labels: (N,) classes.
        num_classes: K.
        noise: (N, d) draws from N(0, I).
    """
    h, log_variance = outputs.chunk(2, dim=1)
    mine = F.one_hot(labels, num_classes).to(h.dtype)
    counts = mine.sum(dim=0)
    sums = mine.T @ h
    others = (sums[labels] - h) / (counts[labels] - 1).clamp_min(1)[:, None]
    queries = counts[labels] > 1

    def log_p(points: Tensor, means: Tensor, own: Tensor) -> Tensor:
        away = distances(points, means)
        to_own = ((points - own).square().sum(dim=1, keepdim=True) + NEAR).sqrt()
        z = -torch.where(mine.bool(), to_own, away)
        return z.masked_fill((counts == 0)[None, :], -torch.inf).log_softmax(dim=1)

    means = sums / counts.clamp_min(1)[:, None]
    certain = log_p(h, means, others)
    wrong = queries & (certain.detach().argmax(dim=1) != labels)
    z = h.detach() + (0.5 * log_variance).exp() * noise
    doubted = log_p(z, means.detach(), others.detach())
    own_certain, own_doubted = (table.gather(1, labels[:, None])[:, 0] for table in (certain, doubted))
    return -(own_certain * queries).sum() - (own_doubted * wrong).sum()


def _replace(network: nn.Module, old: nn.Module, new: nn.Module) -> None:
    for parent in network.modules():
        for name, child in parent.named_children():
            if child is old:
                setattr(parent, name, new)
                return
    raise ValueError("`model` must hold its last layer inside another module, such as nn.Sequential.")
