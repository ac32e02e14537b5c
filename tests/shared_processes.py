"""Distribution of tests over processes: one Spark session at a time, and the long files first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

_ENDS_ITS_SESSION: Final = ("tests/docs/", "tests/native_state/server/test_live_query.py")
"""Files with a Spark session of other settings, which they stop: only the JVM serves the next."""
_OF_ONE_SESSION: Final = ("tests/spark/", "tests/native_state/live/")
"""Folders whose files share a Spark session."""
_TAKES_ANY_SESSION: Final = ("_equal_spark.py", "_equals_spark.py")
"""Ends of names of files that compare with Spark in whichever session is there."""
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
    """Gives tests to processes file by file; those that need Spark to one process at first.

    Another process takes files that need Spark when nothing else is left, and starts a JVM of its
    own for them. Those that end their session come first: later they would end a shared one.
    """

    _with_session: WorkerController | None = None

    def _split_scope(self, nodeid: str) -> str:
        """The name of the share of a test: its file, or the folder it shares something with."""
        folders = (folder for folder in _TOGETHER if nodeid.startswith(folder))
        return next(folders, nodeid.partition("::")[0])

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Gives a process its next share."""
        share = self._next_share(node)
        if self._with_session is None and _starts_spark(share):
            self._with_session = node
        self.workqueue.move_to_end(share, last=False)
        super()._assign_work_unit(node)

    def _next_share(self, node: WorkerController) -> str:
        """The longest share of those that suit the process best."""
        prefers_spark = self._with_session in (None, node)

        def rank(share: str) -> tuple[bool, bool, bool]:
            return (
                _starts_spark(share) != prefers_spark,
                not share.startswith(_ENDS_ITS_SESSION),
                not share.startswith(_LONG),
            )

        # Of equals the first one, which has the most tests.
        share: str = min(self.workqueue, key=rank)
        return share


def _starts_spark(share: str) -> bool:
    return share.startswith((*_ENDS_ITS_SESSION, *_OF_ONE_SESSION)) or share.endswith(
        _TAKES_ANY_SESSION
    )
