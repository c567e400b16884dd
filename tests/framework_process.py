"""A process of two that share rows: metrics of torchmetrics, and a training by Lightning. Prints JSON on rank 0."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from softkin._core import ranks

ROWS, CLASSES = 61, 4  # an odd number: one row is repeated by the sampler


def data():
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(2 * ROWS, 6, generator=generator)
    labels = (inputs[:, :CLASSES] + torch.randn(2 * ROWS, CLASSES, generator=generator)).argmax(1)
    return inputs, labels


def torchmetrics_values():
    from torchmetrics import MetricCollection

    from softkin.torchmetrics import CalibrationError, KernelCalibrationError, NegativeLogLikelihood

    torch.manual_seed(0)
    logits = 2 * torch.randn(ROWS, CLASSES)
    labels = torch.arange(ROWS) % CLASSES
    both = MetricCollection(
        {
            "ece": CalibrationError(num_classes=CLASSES, from_logits=True),
            "output": CalibrationError(num_classes=CLASSES, scope="output", from_logits=True),
            "kde": KernelCalibrationError(num_classes=CLASSES, from_logits=True),
            "nll": NegativeLogLikelihood(num_classes=CLASSES, from_logits=True),
        }
    )
    rank = dist.get_rank()
    for rows in torch.arange(rank, ROWS, 2).split(7):
        both.update(logits[rows], labels[rows])
    values = {name: float(value) for name, value in both.compute().items()}
    return values


def module(alpha="auto"):
    from lightning.pytorch import LightningModule

    from softkin.losses import SoftLabelCrossEntropy
    from softkin.smoothing import uniform_labels

    class Module(LightningModule):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.network = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, CLASSES))
            self.loss_fn = SoftLabelCrossEntropy(uniform_labels(CLASSES), alpha=alpha)

        def forward(self, inputs):
            return self.network(inputs)

        def training_step(self, batch, _):
            return self.loss_fn(self(batch[0]), batch[1])

        def validation_step(self, batch, _):
            return {"logits": self(batch[0]), "labels": batch[1]}

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.5)

    return Module()


def lightning_values(folder, processes=2, logger=False, epochs=2):
    from lightning.pytorch import Trainer

    from softkin import calibrators, metrics
    from softkin.lightning import CalibrationCallback

    inputs, labels = data()
    train = DataLoader(TensorDataset(inputs[:ROWS], labels[:ROWS]), batch_size=8)
    validation = DataLoader(TensorDataset(inputs[ROWS:], labels[ROWS:]), batch_size=8)
    network, callback = module(), CalibrationCallback(folder=f"{folder}/calibrator")
    trainer = Trainer(
        accelerator="cpu", devices=processes, strategy="ddp" if processes > 1 else "auto", max_epochs=epochs,
        logger=logger, callbacks=[callback], enable_progress_bar=False, enable_model_summary=False,
        enable_checkpointing=False, default_root_dir=folder, log_every_n_steps=1,
    )  # fmt: skip
    trainer.fit(network, train, validation)
    with torch.no_grad():
        logits = network.network(inputs[ROWS:])
    p, y = logits.double().softmax(1), labels[ROWS:]
    return {
        "history": callback.history,
        "alpha": network.loss_fn.alpha,
        "temperature": callback.calibrator_.temperature_,
        "whole": {
            "accuracy": metrics.accuracy(p, y),
            "nll": metrics.nll(p, y),
            "ece_hist": metrics.ece_hist(p, y),
            "ece_hist_output": metrics.ece_hist(p, y, scope="output"),
        },
        "whole_temperature": calibrators.TemperatureScaling().fit(logits, y).temperature_,
        "logged": {name: float(value) for name, value in trainer.logged_metrics.items()},
    }


def launched(folder):
    """What two processes of this script print."""
    script = Path(__file__)
    launcher = ("-m", "torch.distributed.run", "--nproc_per_node", "2", "--standalone")
    done = subprocess.run(
        [sys.executable, *launcher, str(script), str(folder)],
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    values = {"lightning": lightning_values(sys.argv[1])}  # which makes the process group
    values["torchmetrics"] = torchmetrics_values()
    if os.environ["RANK"] == "0":
        print(json.dumps(values))
    ranks.leave()
