"""My Lightning module: one callback. ``python examples/my_lightning.py [FOLDER]`` draws ``my_lightning.png``.

With several processes (``torchrun --nproc_per_node 2 examples/my_lightning.py [FOLDER]``) each row still counts once.
"""

import logging
import os
import sys
import warnings
from pathlib import Path

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from softkin import diagrams, metrics
from softkin.lab import data
from softkin.lab.training import ranks
from softkin.lightning import CalibrationCallback
from softkin.losses import ClassSimilarityLoss

warnings.filterwarnings("ignore", module="lightning")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
folder.mkdir(parents=True, exist_ok=True)
digits = data.load("digits")
images, labels = torch.from_numpy(digits.values).flatten(1) / 16, torch.from_numpy(digits.labels)


class Digits(LightningModule):
    """Any module; the loss is softkin's."""

    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
        self.loss_fn = ClassSimilarityLoss.from_names(digits.class_names, alpha="auto")

    def forward(self, inputs):
        return self.network(inputs)

    def training_step(self, batch, batch_idx):
        return self.loss_fn(self(batch[0]), batch[1])

    def validation_step(self, batch, batch_idx):
        return {"logits": self(batch[0]), "labels": batch[1]}

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=3e-3)


torch.manual_seed(0)
train = DataLoader(TensorDataset(images[:300], labels[:300]), batch_size=32, shuffle=True)
validation = DataLoader(TensorDataset(images[300:900], labels[300:900]), batch_size=100)
calibration, module = CalibrationCallback(), Digits()
processes = int(os.environ.get("WORLD_SIZE", 1))
trainer = Trainer(
    accelerator="cpu", devices=processes, strategy="ddp" if processes > 1 else "auto", max_epochs=5, logger=False,
    callbacks=[calibration], enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder,
)  # fmt: skip
trainer.fit(module, train, validation)
if trainer.is_global_zero:
    for entry in calibration.history:
        print({name: round(value, 3) for name, value in entry.items()})
    with torch.no_grad():
        logits = module(images[900:])
    after = calibration.calibrator_.predict_proba(logits)
    errors = [100 * metrics.ece_hist(p, labels[900:]) for p in (logits.softmax(1), after)]
    print(f"Verdict: on new rows the callback's temperature takes the ECE from {errors[0]:.1f} to {errors[1]:.1f} %.")
    models = {"as trained": logits.softmax(1), f"T = {calibration.calibrator_.temperature_:.2f}": after}
    diagrams.reliability(models, labels[900:]).savefig(folder / "my_lightning.png")
ranks.leave()
