"""Distribution of tests over processes: one Spark session at a time, and the long files first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

_OF_ONE_SESSION: Final = "tests/spark/"
_TOGETHER: Final = ("tests/docs/", "tests/standalone/")
"""Folders whose files share what is slow to start."""
_LONG: Final = (
    *("tests/docs/", "tests/standalone/", "tests/kafka/", "tests/cluster/", "tests/examples/"),
    *("tests/chaos/", "tests/versions/", "tests/deploy/"),
    *("tests/spark/random_times/", "tests/spark/restarts/", "tests/spark/incidents/"),
    *("tests/spark/event_time/", "tests/spark/console/", "tests/native_state/live/"),
)
"""Files with few tests that take long: given early, because one given last runs alone."""


class SharedProcesses(LoadScopeScheduling):  # type: ignore[misc]  # it has no annotations
    """Gives tests to processes file by file; those of `tests/spark` to one process at first.

    Another process takes files of `tests/spark` when nothing else is left, and starts a session of
    its own for them.
    """

    _with_session: WorkerController | None = None

    def _split_scope(self, nodeid: str) -> str:
        """The name of the share of a test: its file, or the folder it shares something with."""
        folders = (folder for folder in _TOGETHER if nodeid.startswith(folder))
        return next(folders, nodeid.partition("::")[0])

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Gives a process its next share."""
        share = self._next_share(node)
        if self._with_session is None and share.startswith(_OF_ONE_SESSION):
            self._with_session = node
        self.workqueue.move_to_end(share, last=False)
        super()._assign_work_unit(node)

    def _next_share(self, node: WorkerController) -> str:
        """The longest share of those that suit the process best."""
        prefers_spark = self._with_session in (None, node)

        def rank(share: str) -> tuple[bool, bool]:
            return share.startswith(_OF_ONE_SESSION) != prefers_spark, not share.startswith(_LONG)

        # Of equals the first one, which has the most tests.
        share: str = min(self.workqueue, key=rank)
        return share
