"""The recorded studies, as tests read them."""

import json
from pathlib import Path

from softkin.lab.study.tabulation import Cell, Row, judged

RECORDS = Path(__file__).parents[1] / "results" / "records"


def recorded(study, *, without=()):
    """The rows of a study, judged anew; some methods may be left out."""
    rows = json.loads((RECORDS / study / "table.json").read_text())["rows"]
    made = [
        Row(
            row["method"],
            row["title"],
            {key: Cell.from_dict(cell) for key, cell in row["cells"].items() if cell["value"] is not None},
            cost=row.get("cost"),
        )
        for row in rows
        if row["method"] not in without
    ]
    return judged(made)


# Hand-written: is plain training over- or under-confident or fine; what repairs it ("-": nothing to repair, "no": no
# calibrator does, "add": there is none); is another training worth it (None: there is none); what to use.
EXPECTED = {
    "banking77": ("fine", "-", False, "one-hot"),
    "banking77-fixed": ("fine", "-", False, "one-hot"),
    "banking77-top5": ("fine", "-", False, "one-hot"),
    "cifar100-features-10": ("over", "Dir-ODIR", False, "Dir-ODIR"),
    "cifar100-features-10-fixed": ("over", "TS", False, "TS"),
    "cifar100-features-10-top5": ("over", "TS", False, "TS"),
    "cifar100-features-100": ("over", "Dir-ODIR", False, "Dir-ODIR"),
    "cifar100-features-100-fixed": ("over", "TS", False, "TS"),
    "cifar100-features-400": ("over", "TS", True, "ensemble+TS"),
    "cifar100-features-400-fixed": ("over", "TS", False, "TS"),
    "cifar100-features-400-tuned": ("over", "TS", False, "TS"),
    "clinc150": ("under", "TS", False, "TS"),
    "clinc150-fixed": ("under", "TS", False, "TS"),
    "digits": ("over", "Dir-ODIR", False, "Dir-ODIR"),
    "fashion-mnist": ("over", "Dir-ODIR", False, "Dir-ODIR"),
    "scratch-cosine-1e-4": ("over", "TS", None, "TS"),
    "scratch-cosine-5e-4": ("over", "Dir-ODIR", False, "Dir-ODIR"),
    "scratch-step-1e-4": ("over", "Dir-ODIR", False, "Dir-ODIR"),
    "scratch-whole": ("under", "no", False, "one-hot"),
    "tiny-imagenet": ("over", "TS", False, "TS"),
    "sweep-alpha-0.05": ("over", "add", True, "WE"),
    "sweep-alpha-0.4": ("over", "add", False, "one-hot"),
    "sweep-beta-1": ("over", "add", True, "WE"),
    "fair-banking77": ("fine", "Head", True, "Learned+TS"),
    "fair-cifar100-10": ("under", "Dir-ODIR", False, "Dir-ODIR"),
    "fair-cifar100-20": ("under", "Dir-ODIR", False, "Dir-ODIR"),
    "fair-cifar100-50": ("under", "Dir-ODIR", False, "Dir-ODIR"),
    "fair-cifar100-100": ("under", "SMS", True, "Learned+TS"),
    "fair-cifar100-400": ("under", "TS", True, "ensemble+TS"),
    "fair-clinc150": ("under", "TS", False, "TS"),
    "fair-digits": ("over", "SMS", True, "mixup+TS"),
    "fair-fashion-mnist": ("over", "SMS", False, "SMS"),
    "fair-scratch": ("over", "Dir-ODIR", True, "ensemble+TS"),
    "fair-scratch-all": ("under", "Dir-ODIR", False, "Dir-ODIR"),
    "fair-shipped-20": ("under", "TS", True, "NN+TS"),
    "fair-shipped-100": ("under", "TS", True, "Learned-WE+TS"),
    "cifar100-features-100-top5": ("over", "TS", False, "TS"),
    "cifar100-features-400-top5": ("over", "TS", False, "TS"),
    "scratch-step-1e-4-fixed": ("over", "TS", False, "TS"),
    "scratch-step-5e-4": ("over", "TS", None, "TS"),
    "sweep-alpha-0.01": ("over", "add", True, "WE"),
    "sweep-alpha-0.02": ("over", "add", True, "WE"),
    "sweep-alpha-0.1": ("over", "add", False, "one-hot"),
    "sweep-alpha-0.2": ("over", "add", False, "one-hot"),
    "sweep-beta-0.5": ("over", "add", True, "WE"),
    "sweep-beta-2": ("over", "add", False, "one-hot"),
    "sweep-beta-4": ("over", "add", False, "one-hot"),
    "sweep-beta-6": ("over", "add", False, "one-hot"),
    "fair-banking77-stopped": ("fine", "-", True, "Learned+TS"),
    "fair-banking77-untuned": ("fine", "-", True, "Learned+TS"),
    "fair-cifar100-20-0.0178": ("under", "TS", True, "Learned+TS"),
    "fair-cifar100-20-each": ("under", "TS", True, "Out+TS"),
    "fair-cifar100-20-stopped": ("under", "Dir-ODIR", False, "Dir-ODIR"),
    "fair-cifar100-20-untuned": ("over", "Dir-ODIR", False, "Dir-ODIR"),
    "fair-cifar100-50-0.0178": ("under", "TS", False, "TS"),
    "fair-cifar100-50-0.0103": ("under", "TS", True, "Learned+TS"),
    "fair-cifar100-20-0.0308": ("under", "TS", None, "TS"),
    "fair-cifar100-100-0.0059": ("under", "TS", True, "Learned+TS"),
    "fair-cifar100-100-0.0103": ("under", "TS", False, "TS"),
    "fair-cifar100-100-stopped": ("under", "Dir-ODIR", True, "Learned+TS"),
    "fair-cifar100-100-untuned": ("over", "Dir-ODIR", True, "Learned+TS"),
    "fair-digits-stopped": ("over", "TS", True, "mixup+TS"),
    "fair-digits-untuned": ("over", "TS", True, "mixup+TS"),
}
WITHOUT_PLAIN = {"scratch-step-1e-4-top5", "scratch-whole-fixed"}
"""Studies of variants alone, which recommend nothing: plain training is in the study that they vary"""
