"""A network, its calibrator and its decision in one ONNX graph: ``python examples/export_for_serving.py [FOLDER]``.

Writes ``model.onnx`` for ``examples/serve.py`` and draws ``export_for_serving.png``.
"""

import sys
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

from softkin import calibrators, decisions, diagrams
from softkin.lab import data

warnings.filterwarnings("ignore", module="torch|onnx.*")
folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
folder.mkdir(parents=True, exist_ok=True)
digits = data.load("digits")
images, labels = torch.from_numpy(digits.values).flatten(1) / 16, torch.from_numpy(digits.labels)
torch.manual_seed(0)
network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.Adam(network.parameters(), lr=5e-3)
for _ in range(60):
    optimizer.zero_grad()
    nn.functional.cross_entropy(network(images[:300]), labels[:300]).backward()
    optimizer.step()
network.eval()
with torch.no_grad():
    logits = network(images)
calibrator = calibrators.TemperatureScaling().fit(logits[300:700], labels[300:700])
held_out = calibrator.predict_proba(logits[700:1200])  # other rows than the calibrator's
rule = decisions.Abstain(error=0.05).fit(held_out, labels[700:1200], from_probabilities=True)


class Served(nn.Module):
    """Inputs → (probabilities, answer)."""

    def __init__(self) -> None:
        super().__init__()
        self.network, self.calibrator = network, calibrator.as_module()
        self.rule = rule.as_module(calibrator, dtype=torch.float32)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.network(inputs)
        return self.calibrator(scores), self.rule(scores)


torch.onnx.export(
    Served().eval(), (images[:4],), str(folder / "model.onnx"), input_names=["inputs"],
    output_names=["probabilities", "answer"], dynamic_shapes=({0: torch.export.Dim("rows")},), dynamo=True,
    verbose=False,
)  # fmt: skip
answers = rule.predict(calibrator.predict_proba(logits[1200:]), from_probabilities=True)
print(f"answered {float((answers >= 0).double().mean()):.1%} of the test rows, with at most 5 % errors")
wrong = answers[answers >= 0] != labels[1200:][answers >= 0]
plain = float((logits[1200:].argmax(1) != labels[1200:]).double().mean())
print(f"Verdict: {float(wrong.double().mean()):.1%} of the answers are wrong; without abstaining {plain:.1%} would be.")
figure = diagrams.reliability(calibrator.predict_proba(logits[1200:]), labels[1200:])
figure.savefig(folder / "export_for_serving.png")
