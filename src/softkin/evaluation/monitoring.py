r"""Does confidence still equal accuracy? A test that is valid whenever one looks, and windows over time.

Rows arrive one by one: a claim :math:`p_t`, and later its outcome :math:`y_t`. While the model is calibrated,
:math:`P(y_t = 1 \mid \text{past}) = p_t`. ``Monitor`` bets against that. An alternative (a, b) says that the
probability is :math:`q_t = \sigma(b \operatorname{logit} p_t + a)`: a shift a for claims that are too high or too low,
a slope b for claims that are too extreme or too cautious. The money put on it is multiplied, row by row, by the
likelihood ratio

.. math:: \frac{q_t^{y_t} (1-q_t)^{1-y_t}}{r_t^{y_t} (1-r_t)^{1-y_t}}, \qquad
          r_t = \min(\max(q_t, p_t - \tau), p_t + \tau),

where :math:`\tau` is a gap that is tolerated. One unit of money is divided among ``ALTERNATIVES`` and starting times:
``AT_ONCE`` of it is bet from the first row, and the rest is brought in little by little, a share
:math:`\propto 1/((t+c)\log^2(t+c))` at row t, so that a change after many calibrated rows is found too.

Each ratio has the expectation 1 if the true probability is :math:`p_t` and :math:`\tau = 0`, and at most 1 if it is
anywhere between :math:`p_t - \tau` and :math:`p_t + \tau`: the ratio is monotonic in :math:`y_t`, and :math:`r_t` is
the tolerated probability nearest to :math:`q_t`. So the money is a non-negative supermartingale that begins at 1. By
Ville's inequality, the chance that it ever reaches :math:`1/\delta` is at most :math:`\delta`, however often one looks
and whenever one stops.

References:
    Ville, Étude critique de la notion de collectif, 1939; Waudby-Smith and Ramdas, Estimating means of bounded random
    variables by betting, 2024; Shin, Ramdas and Rinaldo, E-detectors: a nonparametric framework for sequential change
    detection, 2024.
"""

import datetime
import errno
import json
import math
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray

from softkin import SoftkinError
from softkin._core import checks
from softkin._io import files, roles, tables
from softkin.decisions import bounds
from softkin.metrics import Interval
from softkin.metrics.measurement import Measured
from softkin.predictions import file_sets
from softkin.predictions.reading import read_all

Direction = Literal["too high", "too low", "too extreme", "too cautious"]
SHIFTS = (0.1, 0.2, 0.4, 0.8, 1.6)
SLOPES = {"too extreme": (0.5, 0.71), "too cautious": (1.41, 2.0)}
ALTERNATIVES: tuple[tuple[Direction, float, float], ...] = (
    *(("too high", -shift, 1.0) for shift in SHIFTS),
    *(("too low", shift, 1.0) for shift in SHIFTS),
    *(("too extreme", 0.0, slope) for slope in SLOPES["too extreme"]),
    *(("too cautious", 0.0, slope) for slope in SLOPES["too cautious"]),
)
"""What the claims may be instead of right, with the shift a and the slope b of each"""
AT_ONCE = 0.8  # of the money, bet from the first row
DELAY = 100  # c, the rows after which the shares of the rest begin to fall
CERTAIN = 1e-9  # a claim nearer to 0 or 1 is taken as this far from it, so that its logit is finite
MOST_MONEY = 1e300
FORMAT = "softkin monitor 1"


@dataclass(frozen=True)
class Alarm:
    """The row at which the evidence sufficed, and how the claims are wrong."""

    row: int
    """Counted from 1"""
    direction: Direction
    time: str | None = None

    def __str__(self) -> str:
        when = "" if self.time is None else f" ({self.time})"
        return f"Alarm at row {self.row:,}{when}: claims are {self.direction}."


class Monitor:
    """A test that claims keep coming true, row by row, which may be looked at after every row.

    Args:
        false_alarm: The chance of ever raising an alarm while the claims are right.
        tolerance: A gap between claim and probability that is no reason for an alarm, such as 0.02.

    Attributes:
        rows: The number of rows seen.
        evidence: The money that betting against the claims has made of 1; the alarm is raised at 1 / ``false_alarm``.
        alarm: The first alarm; it stays.

    Example:
        >>> monitor = Monitor()
        >>> generator = np.random.default_rng(0)
        >>> claims = generator.uniform(0.6, 1, 3000)
        >>> monitor.update(claims[:1000], generator.random(1000) < claims[:1000]).alarm
        >>> print(monitor.update(claims[1000:], generator.random(2000) < claims[1000:] - 0.1).alarm)
        Alarm at row 1,173: claims are too high.
    """

    def __init__(self, false_alarm: float = 0.05, tolerance: float = 0.0) -> None:
        self.false_alarm = bounds.share(false_alarm, "false_alarm")
        if not 0 <= checks.number(tolerance, "tolerance") < 1:
            raise ValueError(f"`tolerance` must be a share such as 0.02, got {tolerance}.")
        self.tolerance = float(tolerance)
        self.rows, self.fingerprint, self._low = 0, 0, 0
        self.alarm: Alarm | None = None
        self.highest = 1.0
        self._reserve = 1.0
        self._money = np.zeros(len(ALTERNATIVES))
        self._shifts = np.array([shift for _, shift, _ in ALTERNATIVES])
        self._slopes = np.array([slope for _, _, slope in ALTERNATIVES])

    @property
    def evidence(self) -> float:
        """The money now."""
        return float(self._money.sum()) + self._reserve

    def update(self, confidence: Any, correct: Any, times: Sequence[str] | None = None) -> Self:
        """Take in the next rows: a claim in [0, 1] and its outcome in [0, 1], as numbers or as arrays (n,).

        ``times`` are words for the rows, for the alarm.
        """
        p, y = _claims(confidence, correct)
        self.fingerprint = (self.fingerprint + fingerprint(p, y, self.rows)) % 2**64
        for first in range(0, len(p), 4096):
            ratios = self._ratios(p[first : first + 4096], y[first : first + 4096])
            for place, ratio in enumerate(ratios, first):
                self._low += bool(p[place] < 0.5)
                self._bet(ratio, None if times is None else times[place])
        return self

    def _ratios(self, p: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
        """(n, alternatives) likelihood ratios of the outcomes."""
        p = np.clip(p, CERTAIN, 1 - CERTAIN)[:, None]
        y = y[:, None]
        logit = np.log(p) - np.log1p(-p)
        q = 1 / (1 + np.exp(-(self._slopes * logit + self._shifts)))
        nearest = np.clip(np.clip(q, p - self.tolerance, p + self.tolerance), CERTAIN / 2, 1 - CERTAIN / 2)
        ratios: NDArray[Any] = y * (q / nearest) + (1 - y) * ((1 - q) / (1 - nearest))
        return ratios

    def _bet(self, ratio: NDArray[Any], time: str | None) -> None:
        share = _brought_in(self.rows)
        self._reserve -= share
        self._money = np.minimum((self._money + share / len(self._money)) * ratio, MOST_MONEY)
        self.rows += 1
        evidence = self.evidence
        self.highest = max(self.highest, evidence)
        if self.alarm is None and evidence >= 1 / self.false_alarm:
            self.alarm = Alarm(self.rows, self.direction, time)

    @property
    def direction(self) -> Direction:
        """How the claims are wrong according to the bets that have made most.

        Where few claims are below 1/2, too extreme is too high, and too cautious is too low.
        """
        same: dict[Direction, Direction] = {"too extreme": "too high", "too cautious": "too low"}
        one_sided = self._low < self.rows / 4
        made: dict[Direction, float] = {}
        for (alternative, _, _), money in zip(ALTERNATIVES, self._money, strict=True):
            direction = same.get(alternative, alternative) if one_sided else alternative
            made[direction] = made.get(direction, 0.0) + float(money)
        return max(made, key=made.__getitem__)

    def __str__(self) -> str:
        head = f"{self.rows:,} rows, evidence {self.evidence:.3g} of {1 / self.false_alarm:g}"
        return f"{head}. {self.alarm}" if self.alarm else f"{head}: {no_sign(self.tolerance)}."

    # State on disk

    def to_dict(self) -> dict[str, Any]:
        """The whole state as plain data."""
        return {
            "format": FORMAT,
            "false_alarm": self.false_alarm,
            "tolerance": self.tolerance,
            "rows": self.rows,
            "below_half": self._low,
            "fingerprint": f"{self.fingerprint:016x}",
            "money": self._money.tolist(),
            "reserve": self._reserve,
            "highest": self.highest,
            "alarm": None if self.alarm is None else vars(self.alarm),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any], name: str = "the state") -> Self:
        """The monitor that ``to_dict`` described."""
        try:
            if data["format"] != FORMAT or len(data["money"]) != len(ALTERNATIVES):
                raise SoftkinError(f"{name} is not the state of this version's monitor.")
            monitor = cls(data["false_alarm"], data["tolerance"])
            monitor.rows, monitor.highest = checks.count(data["rows"], "rows", least=0), float(data["highest"])
            monitor._low = checks.count(data["below_half"], "below_half", least=0)
            monitor.fingerprint = int(data["fingerprint"], 16)
            monitor._money, monitor._reserve = np.array(data["money"], dtype=np.float64), float(data["reserve"])
            monitor.alarm = None if data["alarm"] is None else Alarm(**data["alarm"])
        except (KeyError, TypeError, ValueError) as error:
            raise SoftkinError(f"{name} is not the state of a monitor: {files.cause(error)}.") from None
        return monitor

    def save(self, path: str | Path) -> None:
        """Append the state to a file, as one line; earlier lines stay. The first is written whole or not at all."""
        line = (json.dumps(files.plain(self.to_dict()), allow_nan=False) + "\n").encode()
        place = files.expanded(path)
        if not os.path.exists(place) or os.path.getsize(place) == 0:
            files.write(place, line)
            return
        with open(place, "ab", buffering=0) as file:
            size = file.tell()
            if _last_byte(path) != b"\n":  # torn
                line = b"\n" + line
            try:
                if file.write(line) < len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(file.fileno())
            except OSError as error:
                file.truncate(size)
                raise SoftkinError(f"{path} could not be written: {error.strerror or error}.") from error

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The monitor in the last whole line of a file; a line that a crash left half-written is passed over."""
        for line in reversed(files.read_bytes(path, "the state of a monitor").splitlines()):
            try:
                data = json.loads(line)
            except ValueError:
                continue
            if isinstance(data, dict):
                return cls.from_dict(data, str(path))
        raise SoftkinError(f"{path} holds no whole state of a monitor.")


def course(log: "Log", monitor: Monitor, most: int = 400) -> list[tuple[int, float]]:
    """The evidence of such a monitor after about ``most`` rows of a log, the first, last and alarm's among them."""
    again, step = Monitor(monitor.false_alarm, monitor.tolerance), math.ceil(len(log) / most)
    ends = {1, len(log), *range(step, len(log), step), *([monitor.alarm.row] if monitor.alarm else [])}
    made = []
    for end in sorted(ends):
        part = slice(again.rows, end)
        made.append((end, again.update(log.confidence[part], log.correct[part]).evidence))
    return made


def _brought_in(row: int) -> float:
    """The share of the money that is bet from this row on, counted from 0; all shares sum to at most 1."""
    t = row + 1 + DELAY
    late = (1 - AT_ONCE) * math.log(DELAY) / (t * math.log(t) ** 2)
    return late + AT_ONCE if row == 0 else late


def _claims(confidence: Any, correct: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    p = np.atleast_1d(np.asarray(confidence, dtype=np.float64))
    y = np.atleast_1d(np.asarray(correct, dtype=np.float64))
    if p.ndim != 1 or p.shape != y.shape:
        raise ValueError(
            f"`confidence` and `correct` must be two numbers or two arrays (n,), got shapes {p.shape} and {y.shape}."
        )
    for values, name in ((p, "confidence"), (y, "correct")):
        if not ((values >= 0) & (values <= 1)).all():
            raise ValueError(f"`{name}` must lie between 0 and 1, got {values[~((values >= 0) & (values <= 1))][0]:g}.")
    return p, y


def fingerprint(p: NDArray[Any], y: NDArray[Any], first: int) -> int:
    """A number that changes if any of these rows, counted from ``first``, changes: to notice a log that was edited."""
    state = (np.arange(first, first + len(p), dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    for values in (p, y):
        state ^= np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(31)
    return int(state.sum(dtype=np.uint64))


def _last_byte(path: str | Path) -> bytes:
    with open(files.expanded(path), "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1)


# Logs


@dataclass(frozen=True)
class Log:
    """Claims and outcomes in the order of their rows, with times where they have some."""

    confidence: NDArray[Any]
    correct: NDArray[Any]
    times: list[str] | None = None

    def __len__(self) -> int:
        return len(self.confidence)


def read_log(path: str | Path, *, time: str | None = None, **options: Any) -> Log:
    """A file of claims and outcomes: pairs of a confidence and an outcome, or predictions by their winning scores.

    Args:
        path: The file.
        time: The column of times; by default found by its name, such as ``date``.
        options: How to read the file: ``score``, ``outcome`` and others of ``predictions.Reading``.
    """
    file = file_sets.open_any(path, **options)
    pool = read_all(file).claims.pool("prediction")
    return Log(pool.scores.double().numpy(), pool.is_hit[:, 0].numpy(), _times(path, file.table, time))


def _times(path: str | Path, table: tables.Table | None, stated: str | None) -> list[str] | None:
    """The times of the rows, where the file is a table with such a column; rows that were left out have none."""
    if table is None and Path(path).is_file() and tables.form_of(path) is not None:
        table = tables.open_table(path)
    if table is None:
        if stated is not None:
            raise SoftkinError(f"--time names a column, and {path} is not a table.")
        return None
    column = roles.chosen(list(table.columns), "time", stated, "time", table.name)
    return None if column is None else [written_out(str(cell)) for (cell,) in table.cells(column)]


# Windows

MOST_WINDOWS = 24
SPANS = ("day", "week", "month", "year")


@dataclass(frozen=True)
class Window:
    """Rows that follow one another, what they claimed, and what came true."""

    name: str
    rows: int
    claimed: float
    """The mean claim"""
    right: Interval
    """The share that came true"""
    gap: Interval
    """Claimed minus right"""

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "name": self.name,
            "rows": self.rows,
            "claimed": self.claimed,
            "right": Measured.of(self.right).to_dict(),
            "gap": Measured.of(self.gap).to_dict(),
        }


def differing(parts: "Sequence[Window]", tolerance: float = 0.0) -> str:
    """A sentence about windows whose gap is beyond the tolerance although all are looked at; empty if there is none."""
    off = [part for part in parts if part.gap.low > tolerance or part.gap.high < -tolerance]
    if not off:
        return ""
    worst = max(off, key=lambda part: abs(part.gap))
    many = "One window differs" if len(off) == 1 else f"{len(off)} of {len(parts)} windows differ"
    how = "much" if worst.gap > 0 else "little"
    furthest = worst.name if len(off) == 1 else f"furthest off is {worst.name}"
    return f"{many}: {furthest}, which claims {abs(100 * worst.gap):.1f} points too {how}."


def no_sign(tolerance: float) -> str:
    """What a log without an alarm shows, in words."""
    beyond = f" by more than {100 * tolerance:g} points" if tolerance else ""
    return f"no sign that claims and outcomes differ{beyond}"


def unseen(alarm: Alarm | None, parts: "Sequence[Window]", tolerance: float = 0.0) -> str:
    """Why there is an alarm although no window differs; empty if there is none, or if one differs."""
    if alarm is None or differing(parts, tolerance):
        return ""
    if alarm.direction in SLOPES:
        ends = ("high", "low") if alarm.direction == "too extreme" else ("low", "high")
        cancels = f"the high claims are too {ends[0]} and the low ones too {ends[1]}, which cancels out"
        return f"The gap of a window does not show that: {cancels}."
    return "No window is off beyond doubt by itself: all rows together show smaller gaps than the rows of one window."


def windows(
    confidence: Any,
    correct: Any,
    times: Sequence[str] | None = None,
    *,
    every: str | int | None = None,
    confidence_level: float = 0.95,
) -> list[Window]:
    """What was claimed and what came true, window by window.

    Args:
        confidence: (n,) claims in [0, 1], in order.
        correct: (n,) outcomes in [0, 1].
        times: (n,) dates or times in ISO 8601, such as "2026-03-01".
        every: "day", "week", "month", "year", or a number of rows. By default the shortest span that makes at most 24
            windows, or about ten windows of equally many rows where there are no times.
        confidence_level: The probability that the intervals of all windows hold at once (Bonferroni): one looks at the
            window that is furthest off.
    """
    p, y = _claims(confidence, correct)
    names = _window_names(len(p), times, every)
    level = 1 - (1 - checks.level(confidence_level)) / max(1, len(set(names)))
    made, start = [], 0
    for end in range(1, len(p) + 1):
        if end < len(p) and names[end] == names[start]:
            continue
        part = slice(start, end)
        claimed = float(p[part].mean())
        if np.isin(y[part], (0, 1)).all():
            # Exact for equal claims, and cautious for others: right answers then vary less (Hoeffding, 1956).
            right = bounds.of_share(float(y[part].sum()), end - start, level)
            gap = Interval(claimed - right, claimed - right.high, claimed - right.low, level)
        else:
            right = bounds.of_mean(torch.from_numpy(y[part]), level, 0.0, 1.0)
            gap = bounds.of_mean(torch.from_numpy(p[part] - y[part]), level, -1.0, 1.0)
        made.append(Window(names[start], end - start, claimed, right, gap))
        start = end
    return made


def _window_names(count: int, times: Sequence[str] | None, every: str | int | None) -> list[str]:
    """The window of each row."""
    if times is None or isinstance(every, int):
        if isinstance(every, str):
            raise ValueError(f"`every` can be {every!r} only where rows have times; name their column.")
        size = checks.count(every, "every") if every is not None else max(1, math.ceil(count / 10))
        ends = [min(count, (row // size + 1) * size) for row in range(0, count, size)]
        return [f"rows {end - (end - 1) % size:,} to {end:,}" for end in ends for _ in range((end - 1) % size + 1)]
    if every is not None:
        checks.option(every, "every", SPANS)
    spans = SPANS if every is None else (every,)
    days = [_day(text) for text in times]
    for span in spans:
        names = [_span(day, span) for day in days]
        if len(set(names)) <= MOST_WINDOWS or span == spans[-1]:
            break
    return names


EPOCHS = ((10**8, 10**10, 1), (10**11, 10**13, 1000))
"""Seconds and milliseconds since 1970, of the years 1973 to 2286: (least, most, units in a second)"""


def written_out(text: str) -> str:
    """A time in ISO 8601, from 2026/03/01, 1.3.2026, or seconds or milliseconds since 1970; others stay as they are.

    Example:
        >>> written_out("2026/03/01"), written_out("1.3.2026 9:05"), written_out("1772323200")
        ('2026-03-01', '2026-03-01 09:05:00', '2026-03-01 00:00:00')
    """
    written = text.strip()
    if re.fullmatch(r"\d{1,2}/\d{1,2}/\d{4}.*", written):
        raise SoftkinError(
            f"{text!r} does not say whether the day or the month comes first; write times as 2026-03-01."
        )
    if re.match(r"\d{4}/", written):
        return written.replace("/", "-")
    for form in ("%d.%m.%Y", "%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S"):
        with suppress(ValueError):
            found = datetime.datetime.strptime(written, form)
            return found.date().isoformat() if form == "%d.%m.%Y" else found.isoformat(" ")
    with suppress(ValueError):
        number = float(written)
        for least, most, units in EPOCHS:
            if least <= number < most:
                return datetime.datetime.fromtimestamp(number / units, datetime.UTC).isoformat(" ")[:19]
    return text


def _day(text: str) -> datetime.date:
    try:
        return datetime.datetime.fromisoformat(written_out(str(text)).strip()).date()
    except ValueError:
        raise SoftkinError(f"times must be written as 2026-03-01 or 2026-03-01T12:00:00, got {text!r}.") from None


def _span(day: datetime.date, span: str) -> str:
    if span == "day":
        return day.isoformat()
    if span == "week":
        return f"week of {(day - datetime.timedelta(days=day.weekday())).isoformat()}"
    return day.strftime("%Y-%m") if span == "month" else f"{day.year:04d}"
