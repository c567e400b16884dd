"""Real training processes for the tests: run to the end, killed again and again, terminated, or several at once.

``python training_process.py MODE … FOLDER METHOD`` prints one line of JSON. Children are forked after the imports, so that
being killed thirty times costs seconds.
"""

import hashlib
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch
from torch import nn

from softkin import SoftkinError
from softkin._core import ranks
from softkin.lab import data, training

SPLIT = data.split("digits", max_per_class=8, test=500, validation=100)


def network(*, batch_norm=True):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8) if batch_norm else nn.Identity(),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.2) if batch_norm else nn.Identity(),
        nn.Linear(128, 10),
    )


def train(folder, method, *, epochs=12, batch_norm=True, device="cpu", **options):
    recipe = training.Recipe.named("small", epochs=epochs, batch_size=16, lr=0.02, augmentation="crop-flip")
    return training.fit(
        network(batch_norm=batch_norm),
        SPLIT.train,
        SPLIT.validation,
        method=method if isinstance(method, training.Method) else training.Method(method),
        recipe=recipe,
        seed=3,
        folder=folder,
        device=device,
        checkpoint_every=0,
        **options,
    )


def outcome(trained):
    """What two runs must share to the bit: weights, losses, validation."""
    digest = hashlib.sha256()
    for name, value in trained.model.state_dict().items():
        digest.update(name.encode() + value.contiguous().numpy().tobytes())
    kept = ("epoch", "loss", "learning_rate", "validation_accuracy", "validation_ece", "validation_nll")
    return {
        "weights": digest.hexdigest(),
        "history": [{name: entry[name] for name in kept if name in entry} for entry in trained.history],
        "resumed": trained.resumed,
        "record": trained.record,
    }


def forked(work):
    """A child that does ``work``; its number."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
    return child


def killed(folder, method):
    """Train in children that die of SIGKILL at random moments, until one gets to the end."""
    moments, kills, places = random.Random(folder.name), 0, []
    train(folder.with_name("warm"), method, epochs=1)  # torch imports much on its first steps
    started = time.monotonic()
    os.waitpid(forked(lambda: train(folder.with_name("measured"), method)), 0)
    whole = time.monotonic() - started  # of an undisturbed run, as busy as the machine now is
    while True:
        child = forked(lambda: train(folder, method))
        end = time.monotonic() + moments.uniform(0, whole / 3)
        while time.monotonic() < end:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                if status != 0:
                    raise SystemExit(f"the child failed: {status}")
                return {"kills": kills, "places": places, **outcome(train(folder, method))}
            time.sleep(0.002)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            kills += 1
        there = sorted(folder.glob("step-*.safetensors"))
        places.append(there[-1].stem if there else None)


def terminated(folder, method):
    """SIGTERM in the middle of an epoch, then the rest."""
    child = forked(lambda: train(folder, method, progress=_terminate_at(7)))
    _, status = os.waitpid(child, 0)
    step = sorted(folder.glob("step-*.safetensors"))[-1].stem
    return {"signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None, "step": step} | outcome(
        train(folder, method)
    )


def _terminate_at(step):
    def listen(event):
        if event["event"] == "step" and event["step"] == step:
            os.kill(os.getpid(), signal.SIGTERM)

    return listen


def shared(folder, method):
    """One of the processes that ``torchrun`` started, or the only one."""
    steps = []
    listen = lambda event: steps.append(event["loss"]) if event["event"] == "step" else None  # noqa: E731
    device = "cpu" if torch.cuda.is_available() else None
    trained = train(None, method, epochs=4, batch_norm=False, device=device, progress=listen)
    with_norm = train(None, method, epochs=1, device=device)
    auto = train(None, training.Method("uniform", alpha="auto"), epochs=4, batch_norm=False, device=device)
    swag = train(None, training.Method("swag", passes=2, swa_share=0.5), epochs=4, batch_norm=False, device=device)
    moments = ranks.gather([float(swag.model.mean.double().sum()), float(swag.model.squares.double().sum())])
    distance = train(None, training.Method("distance"), epochs=2, device=device)  # all weights must get a gradient
    own = train(None, "ps-kd", epochs=4, batch_norm=False, device=device)  # each process has half of what was said
    resumed = stopped_and_resumed(folder, device) if folder is not None else {}
    rank, _ = ranks.world()
    alphas = ranks.gather([entry["alpha"] for entry in auto.history])
    actual = {"steps": steps, "rank": rank, "with_norm": with_norm.record, "alphas": alphas, **resumed}
    actual |= {"moments": moments, "distance": distance.history[-1]["loss"]}
    actual["own outputs"] = [entry["loss"] for entry in own.history]
    return actual | outcome(trained)


def stopped_and_resumed(folder, device):
    """A run that one process's SIGTERM stops for all, for a caller who handles the signal herself, and then the rest."""
    whole = outcome(train(None, "online+mixup", epochs=4, device=device))
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    message = ""
    try:
        train(folder, "online+mixup", epochs=4, device=device, progress=_terminate_at(7))
    except SoftkinError as error:
        message = str(error)
    signal.signal(signal.SIGTERM, before)
    rest = train(folder, "online+mixup", epochs=4, device=device)
    return {
        "message": message,
        "resumed_there": rest.resumed,
        "same": outcome(rest)["weights"] == whole["weights"],
        "same_history": outcome(rest)["history"] == whole["history"],
    }


if __name__ == "__main__":
    modes = {"killed": killed, "terminated": terminated, "shared": shared}
    *wanted, place, method = sys.argv[1:]
    done = {mode: modes[mode](Path(place) / mode, method) for mode in wanted}
    if done.get("shared", {}).get("rank", 0) == 0:
        print(json.dumps(done))
    ranks.leave()
