"""The job that fills the state server, in a process of its own."""

from __future__ import annotations

import contextlib
import time
from multiprocessing import get_context
from multiprocessing.managers import BaseManager
from typing import TYPE_CHECKING, Any, Protocol, cast

from benchmarks.capacity.dataset import DerivedRecords

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.server.settings.shared_settings import Backend


class LoaderHandle(Protocol):
    """The loader as the client process calls it."""

    def describe(self) -> dict[str, Any]:
        """Job id, proxies and pids, as `JobTarget.describe`."""
        ...

    def load(self) -> float:
        """Writes every key, batch by batch; returns the seconds."""
        ...

    def rewrite(self) -> float:
        """Gives every key its next value in one batch; returns the seconds."""
        ...

    def close(self) -> None:
        """Ends the job, its servers and their files."""
        ...


class Loader:
    """A `JobTarget`, whose batches are those of a Spark job's tasks."""

    def __init__(self, size: int, backend: Backend) -> None:
        # Only the loader process needs the parts of a job.
        from benchmarks.query.feeding.job_target import JobTarget

        self._records = DerivedRecords(size)
        self._stack = contextlib.ExitStack()
        self._target = self._stack.enter_context(
            JobTarget(self._records, backend=backend, servers=1)
        )

    def describe(self) -> dict[str, Any]:
        return self._target.describe()

    def load(self) -> float:
        began = time.perf_counter()
        for batch in range(self._records.loads):
            self._target.write(batch, list(self._records.load(batch)))
        return time.perf_counter() - began

    def rewrite(self) -> float:
        began = time.perf_counter()
        self._target.write(self._records.loads, list(range(self._records.size)))
        return time.perf_counter() - began

    def close(self) -> None:
        self._stack.close()


class _Processes(BaseManager):
    pass


_Processes.register("Loader", Loader, exposed=("describe", "load", "rewrite", "close"))


@contextlib.contextmanager
def loader(size: int, backend: Backend) -> Iterator[LoaderHandle]:
    """Starts a loader process with an empty state server."""
    with _Processes(ctx=get_context("spawn")) as processes:
        handle = cast("LoaderHandle", processes.Loader(size, backend))  # type: ignore[attr-defined]
        try:
            yield handle
        finally:
            handle.close()
