"""The connection to a Ray cluster, whose workers import nothing from the current folder unless the caller allows it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from softkin import SoftkinError

if TYPE_CHECKING:
    from types import ModuleType

ENGINES = ("local", "ray")
"""Where work can be done: in processes of this machine, or on a cluster"""


@contextmanager
def connected(address: str | None = None, *, imports_here: bool = False) -> "Iterator[ModuleType]":
    """The module ``ray``, connected to the cluster at ``address``; an existing connection is used and left open.

    Args:
        address: An address such as "auto" or "ray://head:10001"; None starts a cluster on this machine.
        imports_here: Let workers import from the driver's current folder, where anything may lie; for code that the
            user named.

    Raises:
        SoftkinError: Ray is not installed, or the cluster cannot be reached.
    """
    try:
        import ray
    except ImportError:
        raise SoftkinError("the engine ray needs Ray: pip install 'softkin[ray]'.") from None
    ours = not ray.is_initialized()
    if ours:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        local: dict[str, Any] = {"include_dashboard": False} if address is None else {}
        try:
            ray.init(
                address=address, log_to_driver=False, configure_logging=False, job_config=_job(imports_here), **local
            )
        except (ConnectionError, OSError, ValueError, RuntimeError) as error:
            raise SoftkinError(f"the Ray cluster {address or 'here'} cannot be reached: {error}") from error
    try:
        yield ray
    finally:
        if ours:
            ray.shutdown()


def _job(imports_here: bool) -> Any:
    """Settings of a job; unless ``imports_here``, its workers do not import from the driver's current folder.

    By default Ray puts that folder first on the workers' path.
    """
    from ray.job_config import JobConfig

    class WithoutCurrentFolder(JobConfig):  # type: ignore[misc]
        def _runtime_env_has_working_dir(self) -> bool:
            return True  # Ray asks this before it adds the current folder and the script's

    return JobConfig() if imports_here else WithoutCurrentFolder()
