"""How often is a doubt about a class's nearest class right? Judged by hand: benchmarks/neighbours.csv.

The table has 13 lists of classes, in their order, each class with its nearest by softkin's word vectors at β = 2.
Where the nearest takes more than half of α, one person judged whether it is fine or wrong (of another kind, or another
sense of the word, while a better one is in the list).

python benchmarks/neighbours.py
"""

import csv
import warnings
from collections import defaultdict
from pathlib import Path

from softkin import distances, similarity
from softkin.distances.name_doubts import SHARP, unconfirmed

JUDGED = Path(__file__).with_suffix(".csv")


def main() -> None:
    """Print precision and recall."""
    lists: dict[str, list[dict[str, str]]] = defaultdict(list)
    with JUDGED.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            lists[row["list"]].append(row)
    warnings.simplefilter("ignore")
    counts = dict.fromkeys(("judged", "wrong", "doubted", "both", "changed"), 0)
    for rows in lists.values():
        names = [row["class"] for row in rows]
        s = similarity.from_distances(distances.from_words(names), beta=2.0)
        doubted = {k for k, _ in unconfirmed(names, s)}
        most, nearest = s.max(dim=1)
        for k, row in enumerate(rows):
            if names[int(nearest[k])] != row["nearest"] or (float(most[k]) > SHARP) != bool(row["judged"]):
                counts["changed"] += 1
                continue
            is_wrong = row["judged"] == "wrong"
            counts["judged"] += bool(row["judged"])
            counts["wrong"] += is_wrong
            counts["doubted"] += k in doubted
            counts["both"] += is_wrong and k in doubted
    print(counts)
    print(f"precision {counts['both'] / counts['doubted']:.2f}, recall {counts['both'] / counts['wrong']:.2f}")


if __name__ == "__main__":
    main()
