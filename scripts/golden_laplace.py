"""Compute tests/golden/laplace.json with laplace-torch, whose numbers ours must agree with.

It needs an environment with laplace-torch beside torch; ``python scripts/golden_laplace.py`` writes the file.
"""

import json
from importlib.metadata import version
from pathlib import Path

import torch
from laplace import Laplace  # type: ignore[import-not-found, import-untyped, unused-ignore]
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FILE = Path(__file__).resolve().parents[1] / "tests" / "golden" / "laplace.json"


def case(seed: int, inputs: int, hidden: int, classes: int, bias: bool) -> dict[str, object]:
    """A small network, trained for a while, and what laplace-torch makes of it."""
    torch.manual_seed(seed)
    rows = 24
    x, weights = torch.randn(rows, inputs), torch.randn(inputs, classes)
    y = (x @ weights + 0.8 * torch.randn(rows, classes)).argmax(1)
    net = nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, classes, bias=bias))
    adam = torch.optim.Adam(net.parameters(), lr=0.05)
    for _ in range(60):
        adam.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        adam.step()
    loader = DataLoader(TensorDataset(x, y), batch_size=8)
    test = torch.randn(5, inputs)
    actual: dict[str, object] = {
        "weights": {name: tensor.tolist() for name, tensor in net.state_dict().items()},
        "x": x.tolist(),
        "y": y.tolist(),
        "test": test.tolist(),
    }
    peer = Laplace(net, "classification", "last_layer", "kron", prior_precision=2.0)
    peer.fit(loader)
    actual["log_marginal_likelihood"] = float(peer.log_marginal_likelihood())
    _, variances = peer._glm_predictive_distribution(test)
    actual["variances"] = variances.tolist()
    actual["probit"] = [peer(row[None], link_approx="probit").flatten().tolist() for row in test]
    peer.optimize_prior_precision(method="marglik", n_steps=3000, link_approx="probit")
    actual["prior_precision"] = float(peer.prior_precision)
    actual["best_log_marginal_likelihood"] = float(peer.log_marginal_likelihood())
    return actual


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    cases = [case(0, 5, 4, 3, True), case(1, 4, 6, 5, True), case(2, 3, 5, 4, False)]
    about = {name: version(name) for name in ("laplace-torch", "torch")}
    FILE.write_text(json.dumps({"made_with": about, "cases": cases}) + "\n")
    print(f"Wrote {FILE}")
