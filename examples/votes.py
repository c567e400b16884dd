"""Several people's votes as labels: five reviews for each of 2,235 CIFAR-100 test images whose label is in doubt.

    python examples/votes.py cifar100_mturk.json resnet32-cifar100-logits.npz doubtful.npz
    softkin evaluate doubtful.npz

The reviews are those of https://labelerrors.com: people saw an image, its given label and one that a network guessed,
and said which fits: the given one, the guessed one, both or neither. Here "both" is half a vote for each, "neither" is
no vote for either, and images on which nobody chose a label are left out.
"""

import json
import sys

import numpy as np

from softkin import calibrators, metrics


def votes_of(reviews: list[dict], num_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of the images, and (images, classes) votes."""
    votes = np.zeros((len(reviews), num_classes))
    for row, review in zip(votes, reviews, strict=True):
        said = review["mturk"]
        row[review["given_original_label"]] += said["given"] + said["both"] / 2
        row[review["our_guessed_label"]] += said["guessed"] + said["both"] / 2
    kept = votes.sum(axis=1) > 0
    return np.array([review["id"] for review in reviews])[kept], votes[kept]


def main(reviews_file: str, logits_file: str, output: str) -> None:
    """Write the doubtful images' logits and votes, and say what people change."""
    with open(reviews_file) as file:
        reviews = json.load(file)
    arrays = np.load(logits_file)
    images, votes = votes_of(reviews, arrays["logits"].shape[1])
    logits, labels = arrays["logits"][images], arrays["labels"][images]
    np.savez(output, logits=logits, labels=votes)
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    for name, truth in (("the given labels", labels), ("people's votes", votes)):
        gap = metrics.signed_gap(p, truth, confidence=0.95)
        print(f"{name}: accuracy {metrics.accuracy(p, truth):.3f}, NLL {metrics.nll(p, truth):.3f}, ", end="")
        print(f"ECE {metrics.ece_hist(p, truth):.3f}, gap {gap:+.3f} ({gap.low:+.3f} to {gap.high:+.3f})")
    half = np.arange(len(votes)) % 2 == 0
    before = after = metrics.nll(p[~half], votes[~half])
    for method in (calibrators.TemperatureScaling(), calibrators.StructuredVectorScaling(strength=1.0)):
        q = method.fit(logits[half], votes[half]).predict_proba(logits[~half])
        nll = metrics.nll(q, votes[~half])
        after = min(after, nll)
        print(f"after {type(method).__name__}, fitted to the votes of half: NLL {nll:.3f}")
    print(
        f"Verdict: against people's votes on the other half, a calibrator lowers NLL from {before:.3f} to {after:.3f}."
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
