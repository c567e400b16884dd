"""Wrong calls: files that are wrong, each in its own way, and the command lines and Python calls that meet them.

``write_files`` makes the files, and a few good ones beside them; ``COMMANDS`` and ``CALLS`` are the tables.
"""

import io
import os
import zipfile
from pathlib import Path

import numpy as np
import torch

from softkin import calibrators, decisions, distances, losses, metrics, predictions, similarity, smoothing
from softkin._io import bundles
from softkin.lab import data, models, study, training

NAMES = ["dolphin", "whale", "rose"]


def write_files(folder: Path) -> None:
    """Write them into ``folder``; those in CSV and JSON hold what people really mistype."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 60)
    logits = rng.normal(size=(60, 3)) + 2 * np.eye(3)[labels]
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)

    def text(name, content, encoding="utf-8"):
        (folder / name).write_text(content, encoding=encoding)

    # names
    text("names.txt", "\n".join(NAMES))
    text("twice.txt", "cat\ncat\n")
    text("empty.txt", "")
    text("one.txt", "cat\n")
    text("unknown.txt", "cat\nqqqzzq\n")
    text("latin.txt", "cat\ncaf\u00e9\n", "latin-1")
    (folder / "binary.txt").write_bytes(bytes(range(128, 256)))
    text("long.txt", "cat\n" + "x" * 10**6 + "\n")
    # predictions
    np.savez(folder / "good.npz", logits=logits, labels=labels)
    np.savez(folder / "other.npz", logits=logits[::-1] * 2, labels=labels[::-1])
    np.savez(folder / "probs.npz", probs=probs, labels=labels)
    np.savez(folder / "unlabelled.npz", logits=logits)
    np.savez(folder / "unnamed.npz", scores=np.full_like(logits, 0.9), labels=labels)
    np.savez(folder / "nan.npz", logits=np.where(np.eye(60, 3) > 0, np.nan, logits), labels=labels)
    np.savez(folder / "infinite.npz", logits=np.where(np.eye(60, 3) > 0, np.inf, logits), labels=labels)
    np.savez(folder / "label7.npz", logits=logits, labels=labels + 5)
    np.savez(folder / "label-1.npz", logits=logits, labels=labels - 1)
    np.savez(folder / "fractions.npz", logits=logits, labels=labels + 0.5)
    np.savez(folder / "short.npz", logits=logits, labels=labels[:10])
    np.savez(folder / "negative.npz", probs=probs - 0.5, labels=labels)
    np.savez(folder / "sums.npz", probs=probs * 2, labels=labels)
    np.savez(folder / "flat.npz", logits=logits[:, 0], labels=labels)
    np.savez(folder / "cube.npz", logits=logits[None], labels=labels)
    np.savez(folder / "rowless.npz", logits=logits[:0], labels=labels[:0])
    np.savez(folder / "both.npz", logits=logits, probs=probs, labels=labels)
    np.savez(folder / "names2.npz", logits=logits, labels=labels, class_names=["a", "b"])
    np.savez(folder / "names-twice.npz", logits=logits, labels=labels, class_names=["a", "a", "b"])
    np.savez(folder / "four.npz", logits=np.c_[logits, logits[:, :1]], labels=labels)
    np.savez(folder / "objects.npz", logits=np.array([object()] * 3), labels=labels)
    np.savez(folder / "texts.npz", logits=np.array([["a", "b"]] * 60), labels=labels)
    np.save(folder / "lonely_logits.npy", logits)
    np.savez(
        folder / "images.npz", images=rng.integers(0, 255, (30, 8, 8, 3)).astype(np.uint8), labels=np.arange(30) % 3
    )
    np.savez(folder / "gap.npz", features=rng.normal(size=(6, 4)), labels=np.array([0, 0, 2, 2, 2, 0]))
    content = (folder / "good.npz").read_bytes()
    (folder / "cut.npz").write_bytes(content[: len(content) // 2])
    (folder / "empty.npz").write_bytes(b"")
    text("no.npz", "this is no archive")
    with zipfile.ZipFile(folder / "odd.npz", "w") as archive:
        archive.writestr("logits.npy", b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000000, 3), }".ljust(128))  # fmt: skip
        held = io.BytesIO()
        np.save(held, np.arange(3))
        archive.writestr("labels.npy", held.getvalue())
    text("table.csv", "probs_cat,probs_dog,labels\n0.5,0.5,cat\n0.9,0.1,mouse\n")
    text("words.csv", "logits_cat,logits_dog,labels\n0.5,x,cat\n")
    text("ragged.csv", "logits_cat,logits_dog,labels\n0.5,0.2\n0.1,0.2,cat,4\n")
    text("empty.csv", "")
    text("bad.jsonl", '{"logits": [1, 2], "label": 0}\n{"logits": [1, 2\n')
    text("deep.jsonl", "[" * 10**5 + "]" * 10**5)
    text("list.jsonl", "[1, 2]\n[3, 4]\n")
    text("no.parquet", "PAR1 and nothing else")
    text("no.safetensors", "x" * 100)
    text("odd.xyz", "hm")
    text("labels.txt", "\n".join(map(str, labels[:5])))
    # matrices
    D = distances.from_words(NAMES)
    distances.save(folder / "d.safetensors", D, class_names=NAMES, source="words")
    similarity.save(folder / "s.safetensors", similarity.from_distances(D), class_names=NAMES, source="words")
    (folder / "cut.safetensors").write_bytes((folder / "d.safetensors").read_bytes()[:-40])
    text("asymmetric.csv", "a,b,c\n0,1,2\n3,0,1\n2,1,0\n")
    text("negative.csv", "a,b\n0,-1\n-1,0\n")
    text("nan.csv", "a,b\n0,nan\nnan,0\n")
    text("oblong.csv", "a,b,c\n0,1,1\n1,0,1\n")
    text("letters.csv", "a,b\n0,x\nx,0\n")
    text("numbers.csv", "1,2\n0,1\n1,0\n")
    # calibrators
    calibrators.TemperatureScaling().fit(logits, labels).save(folder / "cal")
    (folder / "cal-cut").mkdir()
    whole = (folder / "cal" / "calibrator.safetensors").read_bytes()
    (folder / "cal-cut" / "calibrator.safetensors").write_bytes(whole[:100])
    (folder / "cal-unknown").mkdir()
    about, tensors = bundles.decoded(whole, "cal", "a calibrator")
    about["calibrator"]["fitted"]["name"] = "temprature"
    bundles.write(folder / "cal-unknown" / "calibrator.safetensors", about, tensors)
    (folder / "cal-empty").mkdir()
    # rules
    np.savez(folder / "named.npz", logits=logits, labels=labels, class_names=NAMES)
    np.savez(folder / "others.npz", logits=logits, labels=labels, class_names=["a", "b", "c"])
    decisions.PredictionSets(0.9).fit(logits, labels, class_names=NAMES).save(folder / "rule")
    (folder / "rule-cut").mkdir()
    whole = (folder / "rule" / "rule.safetensors").read_bytes()
    (folder / "rule-cut" / "rule.safetensors").write_bytes(whole[:100])
    (folder / "rule-changed").mkdir()
    changed = whole.replace(b'\\"coverage\\": 0.9', b'\\"coverage\\": 0.8')
    (folder / "rule-changed" / "rule.safetensors").write_bytes(changed)
    text("tree.csv", "parent,child\nmammal,dolphin\nmammal,whale\n")
    text("two-parents.csv", "parent,child\nmammal,dolphin\nmammal,whale\nplant,rose\nfish,whale\n")
    text("circle.csv", "parent,child\ndolphin,whale\nwhale,dolphin\nplant,rose\n")
    text("three-columns.csv", "parent,child\na,b,c\n")
    text("superclasses.csv", "class,superclass\ndolphin,mammal\nwhale,mammal\n")
    # studies
    text("cut.toml", "data = ")
    text("key.toml", 'dta = "digits"\n')
    text("type.toml", 'seeds = "many"\n')
    text("wrong.toml", 'data = "digit"\nmodel = "smal"\nood = ["unifrm"]\n[recipe]\nepoch = 3\n')
    text("code.toml", 'data = "digits"\nmodel = "os:system"\n')
    text("deep.toml", "x = " + "[" * 5000 + "]" * 5000)
    (folder / "study-cut").mkdir()
    (folder / "study-cut" / "study.json").write_text('{"format": ')
    (folder / "study-newer").mkdir()
    (folder / "study-newer" / "study.json").write_text('{"format": 999}')
    (folder / "things").mkdir()
    (folder / "things" / "notes.txt").write_text("mine")
    # in the way
    text("there.json", "mine")
    text("there.html", "mine")
    text("there.npz", "")
    (folder / "link.json").symlink_to(folder / "nowhere" / "else.json")
    if hasattr(os, "mkfifo"):
        os.mkfifo(folder / "pipe.npz")


COMMANDS = [
    tuple(part.strip() for part in line.split(" | "))
    for line in r"""
2 | evalute good.npz | evalute
2 | frobnicate | frobnicate
2 | evaluate | FILE
2 | evaluate good.npz --repot p.html | --repot
2 | evaluate good.npz --format parqet | --format
2 | evaluate good.npz --n-bins 0 | --n-bins
2 | evaluate good.npz --n-bins 1e30 | --n-bins
2 | evaluate good.npz --n-bins 1000000000000000000000000000000 | --n-bins
2 | evaluate good.npz --resamples 1 | --resamples
2 | evaluate good.npz --resamples 1000000000000000000000000000000 | --resamples
2 | evaluate good.npz --resamples 1e30 | --resamples
2 | evaluate good.npz --confidence 0 | --confidence
2 | evaluate good.npz --confidence 1.5 | --confidence
2 | evaluate good.npz --confidence nan | --confidence
2 | evaluate good.npz --abstain 0 | --abstain
2 | evaluate good.npz --abstain 1 | --abstain
2 | evaluate good.npz --abstain 0.1 --abstain-confidence 2 | --abstain-confidence
2 | evaluate good.npz --seed -1 | --seed
2 | evaluate good.npz --seed x | --seed
2 | evaluate good.npz --seed 100000000000000000000000000000000000 | --seed
2 | evaluate good.npz --logits --probs | --probs
1 | evaluate good.npz --probs | --probs
1 | evaluate probs.npz --logits | --logits
1 | evaluate absent.npz | absent.npz could not be read: there is no such file
1 | evaluate things | things
1 | evaluate pipe.npz | pipe.npz could not be read: it is a pipe, not a file
1 | evaluate unlabelled.npz | unlabelled.npz must have labels
1 | evaluate unnamed.npz | unnamed.npz does not say whether its numbers are logits or probabilities
1 | evaluate nan.npz | nan.npz: `logits` must be finite
1 | evaluate infinite.npz | infinite.npz: `logits` must be finite
1 | evaluate label7.npz | label7.npz: `labels` must be below the number of classes, 3
1 | evaluate label-1.npz | label-1.npz: labels are −1
1 | evaluate fractions.npz | fractions.npz: labels must be class numbers or class names
1 | evaluate short.npz | short.npz: `labels` must have shape
1 | evaluate negative.npz | negative.npz: `probabilities` must not be negative
1 | evaluate sums.npz | sums.npz: `probabilities` must have rows that sum to 1
1 | evaluate flat.npz | flat.npz has one score for each sample, but labels of more than two kinds
1 | evaluate cube.npz | cube.npz: `labels` must be the class of each pixel
1 | evaluate rowless.npz | rowless.npz: logits must hold at least one row and class
1 | evaluate both.npz | both.npz holds `logits` and `probs`
1 | evaluate names2.npz | names2.npz: `class_names` must name each class
1 | evaluate names-twice.npz | names-twice.npz: `class_names` must differ
1 | evaluate objects.npz | objects.npz: `logits` holds Python objects, which are never unpickled
1 | evaluate texts.npz | texts.npz: `logits` must hold numbers
1 | evaluate cut.npz | cut.npz could not be read as .npz: it is another format, or it was cut off
1 | evaluate empty.npz | empty.npz could not be read as .npz: it is another format, or it was cut off
1 | evaluate no.npz | no.npz could not be read as .npz: it is another format, or it was cut off
1 | evaluate odd.npz | odd.npz: `logits` was cut off: 0 of 240,000,000,000,000 bytes are there
1 | evaluate lonely_logits.npy | lonely_logits.npy needs its labels
1 | evaluate table.csv | table.csv, line 3: the label must be a number or one of the classes cat, dog …
1 | evaluate words.csv | words.csv, line 2: `logits_dog` must hold numbers, got
1 | evaluate ragged.csv | ragged.csv, line 2 has 2 cells, the first
1 | evaluate empty.csv | empty.csv must hold a table, it is empty
1 | evaluate bad.jsonl | bad.jsonl, line 2 could not be read as JSON
1 | evaluate deep.jsonl | deep.jsonl, line 1 could not be read as JSON: it is nested too deeply
1 | evaluate list.jsonl | list.jsonl, line 1 must be a JSON object
1 | evaluate no.parquet | no.parquet could not be read as parquet
1 | evaluate no.safetensors | no.safetensors could not be read as safetensors
1 | evaluate odd.xyz | odd.xyz has no known format
1 | evaluate good.npz four.npz | four.npz
1 | evaluate good.npz other.npz --report p.html | other.npz
2 | evaluate good.npz --report p.pdf | --report
2 | evaluate good.npz --report there.html | there.html exists already
2 | evaluate good.npz --output there.json | there.json exists already
2 | evaluate good.npz --output link.json | link.json could not be written: it is a link
2 | evaluate good.npz --output things --force | things
2 | evaluate good.npz --output names.txt/x.json | names.txt/x.json could not be written: Not a directory
2 | evaluate good.npz --report p.html --output p.json | --output
1 | evaluate unlabelled.npz --labels labels.txt | labels
1 | evaluate unlabelled.npz --labels absent.txt | absent.txt could not be read: there is no such file
2 | evaluate - - | standard input
2 | evaluate good.npz --jobs 0 | --jobs
2 | evaluate good.npz --engine rayy | --engine
2 | evaluate good.npz --address ray://x:1 | --address
2 | evaluate good.npz --kde-intervall | --kde-intervall
2 | evaluate good.npz --output | --output
2 | calibrate | ACTION
2 | calibrate ft good.npz | ft
2 | calibrate fit | FILE, --output
2 | calibrate fit good.npz --method temprature --output c | method
2 | calibrate fit good.npz --method temperature | --output
1 | calibrate fit unlabelled.npz --method ts --output c | unlabelled.npz must have labels for this
1 | calibrate fit nan.npz --method ts --output c | ts
1 | calibrate fit rowless.npz --method ts --output c | ts
2 | calibrate fit good.npz --method ts --output cal | cal
2 | calibrate fit good.npz --method ts --output names.txt | --output
1 | calibrate fit absent.npz --method ts --output c | absent.npz could not be read: there is no such file
2 | calibrate apply cal good.npz | --output
2 | calibrate apply cal good.npz --output x.txt | --output
2 | calibrate apply cal good.npz --output there.npz | there.npz exists already
1 | calibrate apply absent good.npz --output x.npz | absent
1 | calibrate apply cal-cut good.npz --output x.npz | cal-cut
1 | calibrate apply cal-unknown good.npz --output x.npz | did you mean 'temperature'
1 | calibrate apply cal-empty good.npz --output x.npz | cal-empty
1 | calibrate apply names.txt good.npz --output x.npz | names.txt holds no calibrator: there is no calibrator.safetensors
1 | calibrate apply cal absent.npz --output x.npz | absent.npz could not be read: there is no such file
1 | calibrate apply cal nan.npz --output x.npz | nan.npz: `logits` must be finite
2 | calibrate compare good.npz | TEST
1 | calibrate compare good.npz four.npz | four.npz
1 | calibrate compare good.npz unlabelled.npz | unlabelled.npz must have labels for this
2 | calibrate compare good.npz other.npz --methods ts,nonsense | 'nonsense'
2 | calibrate compare good.npz other.npz --metric nlll | --metric must be one of accuracy, nll, brier, ece_hist, ece_hist_output, ece_positive, got 'nlll'; did you mean 'nll'?
2 | calibrate compare good.npz other.npz --confidence 1 | --confidence
2 | calibrate compare good.npz other.npz --resamples 3 | --resamples
2 | calibrate compare good.npz other.npz --resamples 1000000000000000000000000000000 | --resamples
2 | calibrate compare good.npz other.npz --output there.json | there.json exists already
2 | calibrate compare good.npz other.npz --seed -1 | --seed
2 | calibrate compare good.npz other.npz --labels labels.txt | --labels
2 | calibrate fit good.npz --method ts --output c --floor 2 | --floor
2 | calibrate fit probs.npz --method ts --output c --floor -1 | --floor
2 | calibrate compare good.npz other.npz --metric signed_gap | metric
2 | decide | ACTION
2 | decide fti good.npz | fti
2 | decide fit good.npz --output r | --rule
2 | decide fit good.npz --rule sets | --output
2 | decide fit good.npz --rule stes --output r | did you mean 'sets'?
2 | decide fit good.npz --rule sets --coverage 1 --output r | --coverage must be between 0 and 1
2 | decide fit good.npz --rule sets --coverage x --output r | --coverage
2 | decide fit good.npz --rule sets --score app --output r | did you mean 'aps'?
2 | decide fit good.npz --rule sets --score margin --output r | --score must be one of lac, aps, raps, ordinal
2 | decide fit good.npz --rule abstain --coverage 0.9 --output r | --coverage is not for the rule abstain
2 | decide fit good.npz --rule sets --error 0.1 --output r | --error is not for the rule sets
2 | decide fit good.npz --rule sets --costs asymmetric.csv --output r | --costs is not for the rule sets
2 | decide fit good.npz --rule climb --output r | --tree must be given with the rule climb
2 | decide fit good.npz --rule costs --output r | --costs must be given with the rule costs
2 | decide fit good.npz --rule abstain --error 0 --output r | --error must be between 0 and 1
2 | decide fit good.npz --rule abstain --of answer --output r | --of
2 | decide fit good.npz --rule sets --output rule | rule/rule.safetensors exists already
2 | decide fit good.npz --rule sets --output names.txt | --output must be a folder
2 | decide fit good.npz --rule sets --coverage 0.99 --output r | `coverage` 0.99 needs at least 99 calibration rows, got 60
2 | decide fit good.npz --rule sets --coverage 0.98 --conditional class --output r | calibration rows for each limit, but class
2 | decide fit good.npz --rule abstain --error 0.01 --output r | `error` 0.01 with confidence 0.95 needs at least 299 calibration rows
1 | decide fit good.npz --rule climb --tree tree.csv --output r | good.npz must have class names for a tree
1 | decide fit named.npz --rule climb --tree tree.csv --output r | tree.csv must reach every class, but 'rose' is not in it
1 | decide fit named.npz --rule climb --tree superclasses.csv --output r | superclasses.csv must reach every class, but 'rose'
1 | decide fit named.npz --rule climb --tree two-parents.csv --output r | must give each node one parent, but 'whale' lies below 'mammal' and 'fish'
1 | decide fit named.npz --rule climb --tree circle.csv --output r | circle.csv must have no cycle, but
1 | decide fit named.npz --rule climb --tree three-columns.csv --output r | three-columns.csv must reach every class
1 | decide fit named.npz --rule climb --tree empty.csv --output r | empty.csv must hold a header of class names
1 | decide fit named.npz --rule climb --tree absent.csv --output r | absent.csv could not be read: there is no such file
1 | decide fit named.npz --rule climb --tree s.safetensors --output r | s.safetensors holds similarity, not distances
1 | decide fit named.npz --rule sets --similarity d.safetensors --output r | d.safetensors holds distances, not similarity
1 | decide fit named.npz --rule costs --costs asymmetric.csv --output r | asymmetric.csv was made for other classes
1 | decide fit unlabelled.npz --rule sets --output r | unlabelled.npz must have labels for this
1 | decide fit absent.npz --rule sets --output r | absent.npz could not be read: there is no such file
2 | decide apply rule good.npz | --output
2 | decide apply rule good.npz --output x.txt | --output must end in .csv, .tsv, .jsonl or .npz
2 | decide apply rule good.npz --output there.npz | there.npz exists already
1 | decide apply absent good.npz --output x.csv | absent holds no rule: there is no rule.safetensors
1 | decide apply cal good.npz --output x.csv | cal holds no rule: there is no rule.safetensors
1 | decide apply rule-cut good.npz --output x.csv | rule-cut/rule.safetensors could not be read as a rule
1 | decide apply rule-changed good.npz --output x.csv | rule-changed/rule.safetensors is damaged: the checksum of its description does not fit
1 | decide apply rule four.npz --output x.csv | four.npz: `logits` must have the 3 classes that the rule was fitted on, got 4
1 | decide apply rule others.npz --output x.csv | others.npz must have the classes of the rule, in any order, but it lacks 'dolphin', 'whale', 'rose'; it also has 'a', 'b', 'c'.
1 | decide apply rule nan.npz --output x.csv | nan.npz: `logits` must be finite
2 | decide compare good.npz | TEST
1 | decide compare good.npz four.npz | what is fitted on one must fit the other
1 | decide compare good.npz unlabelled.npz | unlabelled.npz must have labels for this
2 | decide compare good.npz other.npz --rules sets,stes | did you mean 'sets'?
2 | decide compare good.npz other.npz --level 1 | --level must be between 0 and 1
2 | decide compare good.npz other.npz --labels labels.txt | --labels must be left out
2 | decide compare good.npz other.npz --output there.json | there.json exists already
2 | similarity | SOURCE
2 | similarity names.txt --alpha 1 | alpha
2 | similarity names.txt --alpha -0.1 | alpha
2 | similarity names.txt --alpha nan | alpha
2 | similarity names.txt --alpha x | --alpha
2 | similarity names.txt --beta -1 | beta
2 | similarity names.txt --beta inf | beta
2 | similarity names.txt --top 0 | --top
2 | similarity names.txt --top 1000000000000000000000000000000 | --top
2 | similarity names.txt --distance l3 | --distance
2 | similarity names.txt --distance wrods | --distance
2 | similarity names.txt --distance l1 | distance
2 | similarity names.txt --distance autoencoder | distance
2 | similarity names.txt --alias x | --alias
2 | similarity names.txt --alias =y | --alias
2 | similarity names.txt --prefer entities | --prefer
2 | similarity names.txt --size 8 | --size
2 | similarity names.txt --max-per-class 8 | --max-per-class
2 | similarity names.txt --max-per-class 1 | --max-per-class
2 | similarity names.txt --seed -1 | --seed
1 | similarity names.txt --vectors absent.txt | absent.txt could not be read: there is no such file
1 | similarity names.txt --vectors binary.txt | binary.txt, after line 0: not UTF-8 text
2 | similarity names.txt --output there.json | --output
2 | similarity names.txt --device cuda | --device
2 | similarity digits --device nonsense | device
2 | similarity digits --size 0 | --size
2 | similarity digits --size 100000000000000000000 | size
2 | similarity digits --max-per-class 1000000000000000000000000000000000 | --max-per-class
2 | similarity digits --vectors names.txt | vectors
2 | similarity digits --alias a=b | alias
2 | similarity images.npz --distance autoencoder --max-per-class 5 | --max-per-class
1 | similarity twice.txt | twice.txt: `class_names` must differ
1 | similarity empty.txt | at least 2 classes
1 | similarity one.txt | at least 2 classes
2 | similarity unknown.txt | 'qqqzzq'
1 | similarity latin.txt | latin.txt could not be read as UTF-8 text
1 | similarity binary.txt | binary.txt could not be read as UTF-8 text
2 | similarity long.txt | has no vector: 'xxx
1 | similarity absent.txt | absent.txt could not be read: there is no such file
1 | similarity absent | absent
2 | similarity gap.npz | every class must have samples
1 | similarity odd.xyz | odd.xyz has no known format: class names come in a .txt file, images, features or text in
1 | similarity good.npz | good.npz must hold `images` or `features`
1 | similarity pipe.npz | pipe.npz could not be read: it is a pipe, not a file
2 | similarity s.safetensors --beta 2 | --beta must be left out: s.safetensors holds a similarity
1 | similarity cut.safetensors | cut.safetensors could not be read as a class matrix that softkin wrote
1 | similarity no.safetensors | no.safetensors could not be read as a class matrix that softkin wrote
1 | similarity asymmetric.csv | asymmetric.csv: `distances` must be symmetric
1 | similarity negative.csv | negative.csv is not a class matrix: `matrix` must not be negative
1 | similarity nan.csv | nan.csv is not a class matrix: `matrix` must be finite
1 | similarity oblong.csv | oblong.csv must name its rows and columns alike, but they differ
1 | similarity letters.csv | letters.csv must hold numbers below its header: could not convert string to float: 'x'
1 | similarity numbers.csv | numbers.csv must begin with a header of class names
1 | similarity empty.csv | empty.csv must hold a header of class names and a row for each class
2 | similarity names.txt --seed 100000000000000000000000000000000000 | --seed
1 | similarity cube.npz | cube.npz must hold `images` or `features`
2 | train | SOURCE
2 | train absent --output r | absent
2 | train digits --method unifrm | method
2 | train digits --method uniform+similarity | uniform+similarity
2 | train digits --method uniform --alpha 1 | alpha
2 | train digits --method uniform --beta 2 | beta
2 | train digits --method similarity --distance l4 | distance
2 | train digits --method similarity --beta -1 | beta
2 | train digits --method focal --gamma -1 | gamma
2 | train digits --method focal --gamma nan | gamma
2 | train digits --model rsnet18 | rsnet18
2 | train digits --model wrn(unit=2) | 'unit'
2 | train digits --model os:system( | os:system(
2 | train digits --model nosuchpackage:model | model
2 | train digits --epochs 0 | epochs
2 | train digits --epochs 100000000000000000000000 | epochs
2 | train digits --batch-size 0 | --batch-size
2 | train digits --batch-size 1e30 | --batch-size
2 | train digits --lr -1 | lr
2 | train digits --lr nan | lr
2 | train digits --lr inf | lr
2 | train digits --momentum 2 | momentum
2 | train digits --weight-decay -1 | --weight-decay
2 | train digits --schedule cosin | --schedule
2 | train digits --warmup-epochs -1 | --warmup-epochs
2 | train digits --seed -1 | seed
2 | train digits --device nonsense | device
2 | train digits --recipe papr | recipe
2 | train digits --validation 0 | validation
2 | train digits --test 100000000000000000000 | test
2 | train digits --max-per-class 0 | --max-per-class
2 | train digits --ood unifrm | unifrm
2 | train digits --checkpoint-every -1 | --checkpoint-every
2 | train digits --tracker nosuch | --tracker
2 | train digits --output names.txt | output
1 | train good.npz | good.npz must hold `images` or `features`
2 | train digits --seed 100000000000000000000000000000000000 | seed
2 | train digits --augmentation flp | --augmentation
2 | train digits --mixed-precision fp8 | --mixed-precision
2 | train digits --gradient-accumulation 0 | --gradient-accumulation
2 | train digits --log-json there.json | there.json exists already
2 | train digits --alias x | --alias
1 | train cut.npz | cut.npz could not be read as .npz: it is another format, or it was cut off
1 | train empty.npz | empty.npz could not be read as .npz: it is another format, or it was cut off
1 | train no.parquet | no.parquet could not be read as parquet
1 | train names.txt | names.txt has no known format
2 | train images.npz --validation 29 | validation
2 | compare --methods one-hott | methods
2 | compare --methods , | --methods
2 | compare --methods ts+ets | must be a training method
2 | compare --methods ts+ts | ts+ts
2 | compare --seeds 0 | seeds
2 | compare --seeds 10000000 | seeds
2 | compare --seeds 1000000000000000000000000000000 | seeds
2 | compare --seeds a | --seeds
2 | compare --alpha 1 | alpha
2 | compare --alpha a | --alpha
2 | compare --beta -1 | beta
2 | compare --beta , | --beta
2 | compare --mixing 0 | mixing
2 | compare --select nl | select
2 | compare --search grd | search
2 | compare --accuracy-budget -1 | --accuracy-budget
2 | compare --workers 0 | --workers
2 | compare --workers 1000000000000000000000 | --workers
2 | compare --engine rayy | engine
2 | compare --address ray://x:1 | --address
2 | compare --cpus 2 | --cpus
2 | compare --device nonsense | device
2 | compare --data absent | data
2 | compare --config absent.toml | absent.toml could not be read: there is no such file
2 | compare --config cut.toml | cut.toml could not be read as a study
2 | compare --config key.toml | key.toml: key 'dta' is not known
2 | compare --config type.toml | type.toml: `seeds` must be how many, or a list of seeds, got 'many'
2 | compare --config type.toml --seeds 0 | --seeds must be at least 1, got 0
2 | compare --config wrong.toml | wrong.toml: a recipe has no field 'epoch'; did you mean 'epochs'?
2 | compare --config wrong.toml --recipe small | wrong.toml: network 'smal' is not known
2 | compare --config wrong.toml --recipe small --model mlp | wrong.toml: digit could not be read
2 | compare --config wrong.toml --recipe small --model mlp --data digits | wrong.toml: unifrm could not be read
2 | compare --config code.toml | code.toml names the network os:system, which is code that would be run here
2 | compare --config deep.toml | deep.toml could not be read as a study: it is nested too deeply
2 | compare --model nosuch | nosuch
2 | compare --recipe smal | recipe
2 | compare --epochs 0 | epochs
2 | compare --alias x | --alias
2 | compare --ood nonsense | nonsense
1 | compare --output study-cut --methods one-hot --seeds 1 | study-cut
1 | compare --output study-newer --methods one-hot --seeds 1 | study-newer
1 | compare --output things --methods one-hot --seeds 1 | things
1 | compare --output names.txt --methods one-hot --seeds 1 | names.txt must be a folder
2 | compare --seeds 3,-4 | seeds
1 | compare --data cut.npz | cut.npz could not be read as .npz: it is another format, or it was cut off
1 | compare --data good.npz | good.npz must hold `images` or `features`
2 | compare --top-m 0 | --top-m
2 | similarity names.txt --top-m 0 | `--top-m` must be at least 1, got 0
2 | compare --max-per-class 0 | --max-per-class
2 | compare --validation 0 | validation
2 | compare --size 0 | size
2 | compare --latent-dim 0 | --latent-dim must be at least 1, got 0
2 | data | ACTION
2 | data lst | lst
2 | data get nonsense | nonsense
2 | data get cifar10O | cifar10O
2 | data show | SOURCE
1 | data show absent | absent
2 | data show digits --split nonsense | split
2 | data show digits --size 0 | --size
1 | data show odd.xyz | odd.xyz has no known format
1 | data show pipe.npz | pipe.npz could not be read: it is a pipe, not a file
1 | data show cut.npz | cut.npz could not be read as .npz: it is another format, or it was cut off
1 | data show no.parquet | no.parquet could not be read as parquet
1 | data show empty.csv | empty.csv must hold a table, it is empty
1 | data show deep.jsonl | deep.jsonl, line 1 could not be read as JSON: it is nested too deeply
2 | paper | ACTION
2 | paper rn | rn
2 | paper run | run
2 | paper list tabel1 | table1
2 | paper run tabel1 | tabel1
2 | paper run table1 --scale smal | --scale
2 | paper run table1 --rows XX | XX
2 | paper run table1 --data x | --data
2 | paper run table1 --seeds 0 | seeds
2 | paper figure table1 | table1
2 | paper figure reliability --format gif | --format
2 | paper run key.toml | key.toml: `kind` is missing
2 | paper table absent.toml | absent.toml could not be read: there is no such file
2 | paper run deep.toml | deep.toml could not be read as a table or figure: it is nested too deeply
2 | paper run cut.toml | cut.toml could not be read as a table or figure
2 | paper table code.toml | code.toml: `kind` is missing
2 | status | FOLDER
1 | status absent | absent
1 | status names.txt | names.txt holds no study: there is no study.json
1 | status things | things
1 | status study-cut | study-cut
1 | status study-newer | study-newer
2 | status things extra | extra
2 | completion | shell
2 | completion fsh | fsh
""".strip().splitlines()
]
"""Exit code, command line, what the sentence has to say"""

P = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4], [0.2, 0.5, 0.3]]
LABELS = [0, 1, 2, 0]
D = [[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]]

LOSS = losses.SoftLabelCrossEntropy(np.eye(3))

CALLS = [
    (lambda: metrics.ece_hist(P, [0, 1, 2]), "`labels` must be as many as the samples: got 3 for 4"),
    (lambda: metrics.ece_hist(P, [0, 1, 2, 3]), "`labels` must be below the number of classes, 3, got 3"),
    (lambda: metrics.ece_hist(P, [0, 1, 2, -1]), "`labels` must be at least 0, got -1"),
    (lambda: metrics.ece_hist(P, [0.0, 1.5, 2.0, 0.0]), "`labels` must be integers from 0 to K−1, got torch.float64"),
    (lambda: metrics.ece_hist(P, ["a", "b", "c", "d", "e", "a"][: len(P)]), "`labels` are texts such as 'a'"),
    (lambda: metrics.ece_hist(P, None), "`labels` must hold numbers"),
    (lambda: metrics.ece_hist({"cat": 0.9, "dog": 0.1}, ["cat", "dog"]), "with a row for each sample, got a dict"),
    (lambda: metrics.ece_hist(None, LABELS), "`probabilities` must hold numbers"),
    (
        lambda: metrics.ece_hist([[1, 2], [3]], LABELS),
        "`probabilities` must be one array, but its parts differ in shape",
    ),
    (lambda: metrics.ece_hist([[[0.1, 0.9]]], [0]), "`labels`"),
    (lambda: metrics.ece_hist(P, LABELS, n_bins=0), "`n_bins` must be at least 1, got 0"),
    (lambda: metrics.ece_hist(P, LABELS, n_bins=2.5), "`n_bins` must be a whole number, got 2.5"),
    (lambda: metrics.ece_hist(P, LABELS, binning="equal"), "`binning` must be 'width' or 'mass', got 'equal'"),
    (lambda: metrics.ece_hist(P, LABELS, scope="class"), "`scope` must be 'prediction' or 'output', got 'class'"),
    (lambda: metrics.ece_hist(P, LABELS, convention="netcl"), "did you mean 'netcal'?"),
    (lambda: metrics.ece_kde(P, LABELS, bandwidth=-1), "`bandwidth` must be"),
    (lambda: metrics.nll([[2.0, -1.0], [0.5, 0.5]], [0, 1]), "`probabilities` must not be negative, got -1 at row 0"),
    (lambda: metrics.brier([[np.nan, 1.0], [0.5, 0.5]], [0, 1]), "`probabilities` must be finite"),
    (lambda: metrics.top_k_accuracy(P, LABELS, k=0), "`k` must be at least 1, got 0"),
    (lambda: metrics.interval(P, LABELS, "ece"), "`metric` must be one of accuracy"),
    (lambda: metrics.interval(P, LABELS, "nll", confidence=95), "`confidence` must be between 0 and 1, such as 0.95"),
    (lambda: metrics.interval(P, LABELS, "nll", resamples=0), "`resamples` must be at least 100, got 0"),
    (lambda: metrics.interval(P, LABELS, "nll", seed=-1), "`seed` must be at least 0, got -1"),
    (lambda: metrics.compare(P, P, LABELS, seed=-2), "`seed` must be at least 0, got -2"),
    (lambda: metrics.compare(P, P[:3], LABELS), "both models must cover the same samples and classes"),
    (lambda: decisions.select(P, LABELS, risk=0.1), "`scores` must have shape (N,)"),
    (lambda: decisions.PredictionSets(1.0), "`coverage` must be between 0 and 1, such as 0.9, got 1"),
    (lambda: decisions.PredictionSets(score="app"), "did you mean 'aps'?"),
    (lambda: decisions.PredictionSets(conditional="group"), "`conditional` must be 'class', got 'group'"),
    (
        lambda: decisions.PredictionSets(0.99).fit(P, LABELS),
        "`coverage` 0.99 needs at least 99 calibration rows, got 4",
    ),
    (lambda: decisions.PredictionSets(conditional=[0, 2, 0]).fit(P, LABELS), "but group 1 has no class"),
    (lambda: decisions.PredictionSets(0.5, conditional=[0, 1, 1]).fit(P, [0] * 4), "but group 1 has none"),
    (lambda: decisions.PredictionSets(similarity=P), "`similarity` must be a square (K, K) matrix"),
    (lambda: decisions.PredictionSets(weight=-1), "`weight` must be finite and at least 0, got -1"),
    (lambda: decisions.PredictionSets(0.5).fit(P, LABELS, uniforms=[0.5] * 4), "`uniforms` must be left out"),
    (lambda: decisions.Abstain(0), "`error` must be between 0 and 1, such as 0.05, got 0"),
    (lambda: decisions.Abstain(score="entropie"), "did you mean 'entropy'?"),
    (lambda: decisions.Abstain(of="all"), "`of` must be 'answers' or 'rows', got 'all'"),
    (lambda: decisions.Abstain(0.01).fit(P, LABELS), "needs at least 299 calibration rows even if no answer is wrong"),
    (
        lambda: decisions.Climb({"cat": "animal"}),
        "`tree` must be a Tree, such as Tree.from_superclasses(groups) makes, got dict",
    ),
    (lambda: decisions.Tree.from_edges([("a", "b")], ["b", "c"]), "every class, but 'c' is not in it"),
    (lambda: decisions.Costs([[0, np.inf], [1, 0]]), "`matrix` must be finite"),
    (lambda: decisions.load("rule-cut"), "rule.safetensors could not be read as a rule"),
    (
        lambda: decisions.adjust_priors(np.eye(2), new=[0.5, 0.6]),
        "`new` must be shares that sum to 1, got a sum of 1.1",
    ),
    (lambda: decisions.expected_accuracy(P, confidence=2), "`confidence` must be between 0 and 1"),
    (lambda: calibrators.TemperatureScaling().predict_proba(P), "this TemperatureScaling is not fitted yet"),
    (lambda: calibrators.TemperatureScaling().fit(P, [0, 1]), "`labels` must be as many as the samples: got 2 for 4"),
    (lambda: calibrators.TemperatureScaling(objective="ms"), "`objective` must be 'nll' or 'mse', got 'ms'"),
    (lambda: calibrators.TemperatureScaling().fit([[np.inf, 0.0], [0.0, 1.0]], [0, 1]), "`logits` must be finite"),
    (lambda: calibrators.load("cal-empty"), "cal-empty holds no calibrator"),
    (lambda: distances.from_words("cat"), "`class_names` must be a list of names, got the single text 'cat'"),
    (lambda: distances.from_words(["cat", "cat"]), "`class_names` must differ, but 'cat' appears at indices 0 and 1"),
    (lambda: distances.from_words(["cat"]), "`class_names` must name at least 2 classes, got 1"),
    (lambda: distances.from_words(["cat", 3.5]), "`class_names` must hold text or lists of text, got 3.5 at index 1"),
    (lambda: distances.from_features(np.full((4, 2), np.nan), LABELS), "`features` must be finite"),
    (
        lambda: distances.load("cut.safetensors", class_names=NAMES),
        "cut.safetensors could not be read as a class matrix",
    ),
    (lambda: distances.load("s.safetensors", class_names=NAMES), "s.safetensors holds similarity, not distances"),
    (lambda: similarity.from_distances([[0.0, 1.0]]), "`distances` must be a square (K, K) matrix"),
    (lambda: similarity.from_distances([[0.0, -1.0], [-1.0, 0.0]]), "`distances` must not be negative"),
    (lambda: similarity.from_distances(D, beta=-1), "`beta` must be finite and at least 0, got -1"),
    (lambda: similarity.from_distances(D, beta="x"), "`beta` must be a number, got 'x'"),
    (lambda: similarity.from_distances(D, top_m=0), "`top_m` must be at least 1, got 0"),
    (lambda: smoothing.uniform_labels(1), "`num_classes` must be at least 2, got 1"),
    (lambda: smoothing.uniform_labels(3, alpha=1), "`alpha` must be at least 0 and below 1, got 1"),
    (lambda: smoothing.similarity_labels(D), "`similarity` must have rows that sum to 1, but row 0 sums to 3"),
    (lambda: smoothing.similarity_labels(P), "`similarity` must be a square (K, K) matrix, got shape (4, 3)"),
    (lambda: losses.SoftLabelCrossEntropy(np.eye(3), reduction="men"), "`reduction` must be 'mean', 'sum' or 'none'"),
    (lambda: LOSS(torch.zeros(4, 2), torch.tensor(LABELS)), "the labels cover 3 classes but the logits have 2"),
    (lambda: LOSS(torch.zeros(4, 3), torch.tensor([0, 1, 2, 7])), "targets must be from 0 to 2 or ignore_index=-100"),
    (lambda: losses.ClassSimilarityLoss(np.eye(3), alpha=2), "`alpha` must be at least 0 and below 1, got 2"),
    (lambda: models.build("rsnet18", num_classes=3, input_shape=(3, 8, 8)), "did you mean 'resnet18'?"),
    (lambda: models.build("small", num_classes=0, input_shape=(3, 8, 8)), "`num_classes` must be at least 2, got 0"),
    (lambda: predictions.Predictions(logits=P, labels=[0, 1]), "`labels` must be as many as the samples: got 2"),
    (lambda: predictions.load("nan.npz"), "nan.npz: `logits` must be finite"),
    (lambda: data.load("odd.xyz"), "odd.xyz has no known format"),
    (lambda: data.load(3), "`source` must be a path, a name, or a data set"),
    (lambda: data.split("digits", seed=-1), "`seed` must be at least 0, got -1"),
    (lambda: data.split("digits", validation=0), "`validation` must be at least 1, got 0"),
    (lambda: study.StudySpec(methods=["one-hott"]), "did you mean 'one-hot'?"),
    (lambda: study.StudySpec(seeds=0), "`seeds` must be at least 1, got 0"),
    (lambda: training.Method("unifrm"), "did you mean 'uniform'?"),
    (lambda: training.Recipe(epochs=0), "`epochs` must be at least 1, got 0"),
    (lambda: training.Recipe(lr=np.nan), "`lr` must be finite and at least 0, got nan"),
]
"""A call, made where the files are, and what its sentence has to say"""
