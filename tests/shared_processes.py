"""Distribution of tests over processes: those of one Spark session stay together."""

from __future__ import annotations

from typing import Final

from xdist.scheduler import LoadScopeScheduling

_SHARES: Final = {
    "tests/spark/": "spark",
    "tests/wire/test_key_groups_equal_spark.py": "spark",
    "tests/docs/": "docs",
}


class SharedProcesses(LoadScopeScheduling):  # type: ignore[misc]  # it has no annotations
    """Gives a process all tests of one Spark session at once, and other tests file by file.

    The largest share is given first, which is that of tests/spark or a file of many quick tests.
    """

    def _split_scope(self, nodeid: str) -> str:
        """The name of the share of a test."""
        shares = (share for begin, share in _SHARES.items() if nodeid.startswith(begin))
        return next(shares, nodeid.partition("::")[0])
