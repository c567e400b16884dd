"""Every script in examples/ runs on small data and draws its figure; what serves answers over HTTP."""

import json
import os
import re
import runpy
import subprocess
import sys
import threading
import urllib.error
import urllib.request
import warnings

import numpy as np
import pytest
import torch

from places import EXAMPLES
from softkin import evaluation

pytestmark = pytest.mark.slow

SMALL = {"many_classes": ["500"]}
GALLERY = [
    "own_loop", "my_lightning", "my_transformers", "my_sklearn", "logits_file", "csv_from_elsewhere", "phrases",
    "german", "tree", "many_classes", "two_gpus", "cluster", "monitoring",
]  # fmt: skip


def run(name, folder, monkeypatch):
    monkeypatch.setattr(sys, "argv", [f"{name}.py", str(folder), *SMALL.get(name, [])])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the frameworks' own
        return runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="example")


@pytest.mark.parametrize("name", GALLERY)
def test_the_gallery(name, tmp_path, monkeypatch, capsys):
    run(name, tmp_path / "new", monkeypatch)
    assert (tmp_path / "new" / f"{name}.png").stat().st_size > 2000
    assert "\nVerdict: " in f"\n{capsys.readouterr().out}"  # how large the gain is, or that there is none


@pytest.mark.parametrize("name", ["my_lightning", "two_gpus"])
def test_the_gallery_in_two_processes(name, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--standalone",
         str(EXAMPLES / f"{name}.py"), str(tmp_path)],
        capture_output=True, text=True, timeout=300, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / f"{name}.png").is_file()
    lines = [line for line in done.stdout.splitlines() if line.startswith(("{", "2 process"))]
    assert len(lines) == {"my_lightning": 5, "two_gpus": 1}[name]  # one process speaks


def test_the_gallery_is_all_there_is():
    others = {"train_digits", "timm_script", "torchvision_script", "serve", "export_for_serving", "votes"}
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*GALLERY, *others}


def test_the_loop_of_the_readme(monkeypatch, tmp_path, capsys):
    run("train_digits", tmp_path, monkeypatch)
    assert re.search(r"\nVerdict: .* has the lowest NLL, 0\.\d+ ± 0\.\d+ below one-hot", capsys.readouterr().out)


def test_reviews_become_votes(tmp_path, shared_data, capsys):
    made = runpy.run_path(str(EXAMPLES / "votes.py"), run_name="example")
    said = [{"given": 3, "guessed": 1, "neither": 0, "both": 1}, {"given": 0, "guessed": 0, "neither": 5, "both": 0}]
    reviews = [
        {"id": 7 + i, "given_original_label": 0, "our_guessed_label": 2, "mturk": one} for i, one in enumerate(said)
    ]
    images, votes = made["votes_of"](reviews, 4)
    assert images.tolist() == [7]
    assert votes.tolist() == [[3.5, 0, 1.5, 0]]
    files = shared_data / "human" / "cifar100_mturk.json", shared_data / "logits" / "resnet32-cifar100-logits.npz"
    made["main"](*map(str, files), str(tmp_path / "doubtful.npz"))
    said = capsys.readouterr().out
    assert "people's votes: accuracy 0.382, NLL 2.738" in said  # the given labels: 0.355
    assert "\nVerdict: against people's votes on the other half, a calibrator lowers NLL from " in said
    data = evaluation.evaluate_file(tmp_path / "doubtful.npz", resamples=100).data
    assert data["num_samples"] == 2235
    one = (np.load(tmp_path / "doubtful.npz")["labels"] > 0).sum(axis=1) == 1
    assert data["people"]["unanimous"] == pytest.approx(one.mean())


def test_one_graph_answers_over_http(tmp_path, monkeypatch):
    made = run("export_for_serving", tmp_path, monkeypatch)
    serve = runpy.run_path(str(EXAMPLES / "serve.py"), run_name="example")
    served = serve["server"](str(tmp_path / "model.onnx"))
    threading.Thread(target=served.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{served.server_address[1]}/"

    def ask(content):
        request = urllib.request.Request(url, data=json.dumps(content).encode())
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as reply:
            return json.loads(reply.read())

    try:
        rows = made["images"][1200:1230]
        reply = ask({"inputs": rows.tolist()})
        with torch.no_grad():
            expected = made["calibrator"].predict_proba(made["network"](rows))
        np.testing.assert_allclose(reply["probabilities"], expected, atol=1e-5)
        answers = made["rule"].predict(expected, from_probabilities=True)
        assert reply["answer"] == answers.tolist()
        for wrong in ({"inputs": [[1.0]]}, {"rows": 1}, [1]):
            with pytest.raises(urllib.error.HTTPError) as refused:
                ask(wrong)
            assert refused.value.code == 400
            refused.value.close()
    finally:
        served.shutdown()
        served.server_close()


# timm and torchvision cannot be imported beside the CPU build of torch that the tests run with; these stand-ins have the
# signatures of timm.data.Mixup and torchvision's references.classification.transforms.RandomMixup.


class Mixup:
    def __init__(self, mixup_alpha=1.0, cutmix_alpha=0.0, cutmix_minmax=None, prob=1.0, switch_prob=0.5, mode="batch",
                 correct_lam=True, label_smoothing=0.1, num_classes=1000):  # fmt: skip
        self.alpha, self.label_smoothing, self.num_classes = mixup_alpha, label_smoothing, num_classes

    def __call__(self, x, target):
        lam = float(np.random.default_rng(int(target.sum())).beta(self.alpha, self.alpha))
        off = self.label_smoothing / self.num_classes

        def rows(labels):
            full = torch.full((len(labels), self.num_classes), off)
            return full.scatter_(1, labels[:, None], 1.0 - self.label_smoothing + off)

        return x * lam + x.flip(0) * (1 - lam), rows(target) * lam + rows(target.flip(0)) * (1 - lam)


class RandomMixup(torch.nn.Module):
    def __init__(self, num_classes, p=0.5, alpha=1.0, inplace=False):
        super().__init__()
        self.num_classes, self.alpha = num_classes, alpha

    def forward(self, batch, target):
        target = torch.nn.functional.one_hot(target, self.num_classes).to(batch.dtype)
        lam = float(torch._sample_dirichlet(torch.tensor([self.alpha, self.alpha]))[0])
        return batch * lam + batch.roll(1, 0) * (1 - lam), target * lam + target.roll(1, 0) * (1 - lam)


NAMES = ["cat", "dog", "horse", "bird", "car", "truck", "ship", "airplane"]


def batches(count=12):
    generator = torch.Generator().manual_seed(0)
    for _ in range(count):
        labels = torch.randint(8, (16,), generator=generator)
        yield torch.randn(16, 8, generator=generator) + 2 * torch.nn.functional.one_hot(labels, 8), labels


def test_timm_with_mixup_and_its_trap():
    train = runpy.run_path(str(EXAMPLES / "timm_script.py"))["train"]
    values = train(torch.nn.Linear(8, 8), batches(), NAMES, mixup_fn=Mixup(label_smoothing=0.0, num_classes=8), lr=0.2)
    assert np.mean(values[-3:]) < np.mean(values[:3])
    assert len(train(torch.nn.Linear(8, 8), batches(), NAMES)) == 12
    with pytest.warns(UserWarning, match="already smooth .* are smoothed again: the effective label of its class"):
        train(torch.nn.Linear(8, 8), batches(), NAMES, mixup_fn=Mixup(num_classes=8))  # timm's default is 0.1


def test_torchvisions_reference_script():
    script = runpy.run_path(str(EXAMPLES / "torchvision_script.py"))
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    criterion = script["criterion_of"](NAMES)
    first = script["train_one_epoch"](model, criterion, optimizer, list(batches(1)), RandomMixup(8))
    last = script["train_one_epoch"](model, criterion, optimizer, batches(), RandomMixup(8))
    assert last < first


def test_the_simulated_files_are_those_of_the_script():
    script = runpy.run_path(str(EXAMPLES.parent / "scripts" / "build_examples.py"), run_name="script")
    for name, seed in (("churn", 1), ("tickets", 2)):
        assert script[name](np.random.default_rng(seed)) == (EXAMPLES / f"{name}.csv").read_text(), name
