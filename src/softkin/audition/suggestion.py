"""Which candidate to use and which α to start with, in sentences that say how certain that is."""

import numpy as np

from softkin.audition.confusions import Confusions
from softkin.audition.fits import Floats
from softkin.audition.results import Candidate
from softkin.losses import auto_alpha

MIXTURE = "mixture"


def suggestion(ordered: list[Candidate], draws: Floats, uniform: float, tail: float) -> tuple[Candidate, list[str]]:
    """The best single source, or the mixture if it is clearly better, and sentences that explain the choice."""
    single = next(place for place, candidate in enumerate(ordered) if candidate.name != MIXTURE)
    chosen = single
    words = []
    mixed = next((place for place, candidate in enumerate(ordered) if candidate.name == MIXTURE), None)
    if mixed is not None:
        gain = draws[:, single] - draws[:, mixed]
        low, high = np.quantile(gain, [tail, 1 - tail])
        value = ordered[single].cross_entropy.value - ordered[mixed].cross_entropy.value
        if low > 0:
            chosen = mixed
        words.append(
            f"The mixture is {value:+.3f} nats per row better than {ordered[single].name} ({low:+.3f} to {high:+.3f})"
            f"{': take it' if low > 0 else ', which may be chance: take the single source'}."
        )
    best = ordered[chosen]
    gain_value = uniform - best.cross_entropy.value
    if best.cross_entropy.high >= uniform or best.cross_entropy.p_value > 0.05:
        words.insert(
            0,
            f"No source predicts these confusions clearly better than no similarity (best: {best.name}, "
            f"{gain_value:+.3f} nats per row): uniform smoothing will do as well.",
        )
    else:
        words.insert(
            0,
            f"Use {best.name} with β = {best.beta:.2g}: {best.cross_entropy.value:.3f} nats per row, {gain_value:.3f} "
            f"better than no similarity.",
        )
    rivals = [place for place, candidate in enumerate(ordered) if candidate.name not in (MIXTURE, ordered[single].name)]
    if rivals:
        second = ordered[rivals[0]]
        low, high = np.quantile(draws[:, rivals[0]] - draws[:, single], [tail, 1 - tail])
        words.append(
            f"Of the single sources {ordered[single].name} is best in {100 * ordered[single].wins:.0f} % of resamples; "
            f"{second.name} is behind by {second.cross_entropy.value - ordered[single].cross_entropy.value:.3f} "
            f"({low:+.3f} to {high:+.3f})."
        )
    return best, words


def starting_alpha(confusions: Confusions) -> tuple[float | str, str]:
    """The α to start with and the sentence that explains it, from the baseline's gap."""
    if confusions.gap is None or confusions.gap_deviation is None:
        return "auto", "These confusions do not say how much to smooth: alpha='auto' finds out during training."
    words = auto_alpha.what_a_gap_implies(confusions.gap, confusions.gap_deviation)
    if abs(confusions.gap) <= 2 * confusions.gap_deviation or confusions.gap < 0:
        return 0.0, f"The baseline is {words}."
    return round(max(auto_alpha.SHARE * confusions.gap, 0.01), 3), f"The baseline is {words}."
