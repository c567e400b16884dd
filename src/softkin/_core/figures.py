"""Figures that look the same wherever they are drawn. Import this where a figure is made: it loads matplotlib."""

import contextlib
import io
import warnings
from collections.abc import Iterator
from typing import Any

from softkin import SoftkinError

try:
    import matplotlib
    from matplotlib.figure import Figure as PlainFigure
except UnicodeDecodeError as error:  # it reads ./matplotlibrc, whoever wrote that
    raise SoftkinError(f"matplotlib could not be loaded: a file matplotlibrc is no text in UTF-8: {error}.") from error


@contextlib.contextmanager
def own_settings() -> Iterator[None]:
    """Draw with matplotlib's defaults and what the program itself has set, such as a style.

    matplotlib obeys a file ``matplotlibrc`` in the current folder, which may come from somebody else: with LaTeX it
    could read files into a figure.
    """
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore", matplotlib.MatplotlibDeprecationWarning)  # from settings about to go
        current, from_file, plain = matplotlib.rcParams, matplotlib.rcParamsOrig, matplotlib.rcParamsDefault
        for name in plain.keys() - {"backend"}:  # only pyplot has one
            if current[name] == from_file[name]:
                current[name] = plain[name]
        yield


def rendered(figure: PlainFigure, form: str = "png", **options: Any) -> bytes:
    """The content of a file with this figure; ``options`` are those of ``savefig``."""
    content = io.BytesIO()
    with own_settings():
        matplotlib.rcParams["svg.hashsalt"] = "softkin"  # the same figure has the same bytes
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form)
        figure.savefig(content, format=form, **{"metadata": metadata, **options})
    return content.getvalue()


class Figure(PlainFigure):
    """A figure that pyplot does not know, but notebooks show."""

    def _repr_png_(self) -> bytes:
        return rendered(self, bbox_inches="tight")
