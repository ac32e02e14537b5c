"""Distribution of tests over processes: those with Spark share one, and its session."""

from __future__ import annotations

from typing import Final

from xdist.scheduler import LoadScopeScheduling

WITH_SPARK: Final = ("tests/spark/", "tests/docs/", "tests/wire/test_key_groups_equal_spark.py")


class SharedProcesses(LoadScopeScheduling):  # type: ignore[misc]  # it has no annotations
    """Gives a process all tests with Spark at once, and other tests file by file.

    The largest share is given first, which is that with Spark or a file of many quick tests.
    """

    def _split_scope(self, nodeid: str) -> str:
        """The name of the share of a test."""
        return "spark" if nodeid.startswith(WITH_SPARK) else nodeid.partition("::")[0]
