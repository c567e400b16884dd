"""Data sets of the Hugging Face hub, downloaded by name."""

import re
from pathlib import Path

from softkin import SoftkinError

CONVERTED = "refs/convert/parquet"  # where the hub keeps a parquet copy of data sets in other forms
WANTED = ["*.parquet", "*.csv", "*.jsonl", "words.txt"]

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def is_name(text: str) -> bool:
    """Whether ``text`` can be the name of a data set on the hub: owner/name."""
    return _NAME.fullmatch(text) is not None and Path(text).suffix.lower() not in {".parquet", ".csv", ".jsonl", ".npz"}


def get(name: str) -> Path:
    """The folder of a data set's files, downloaded by huggingface_hub into its own cache."""
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError
    except ImportError as error:
        raise SoftkinError(
            f"{name} could not be read: there is no such file or folder, and for a data set of the Hugging Face hub "
            "huggingface_hub is needed: pip install huggingface_hub."
        ) from error
    tried = f"{name} could not be read: there is no such file or folder, and"
    try:
        path = Path(snapshot_download(name, repo_type="dataset", allow_patterns=WANTED))
        if not any(path.rglob("*.parquet")) and not any(path.rglob("*.csv")) and not any(path.rglob("*.jsonl")):
            path = Path(snapshot_download(name, repo_type="dataset", revision=CONVERTED, allow_patterns=WANTED))
    except RepositoryNotFoundError as error:
        raise SoftkinError(f"{tried} the Hugging Face hub knows no public data set of that name.") from error
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise SoftkinError(f"{tried} the Hugging Face hub could not be reached: {first}") from error
    return path
