"""Daemon of Spark's Python workers that imports what all of them import, before it forks them.

Each worker of the tests would spend more than a second on these imports. Programs that tests start,
the documentation and clusters run Spark's own daemon.
"""

from __future__ import annotations

import sys

from pyspark.daemon import manager

if __name__ == "__main__":
    # Sources have daemons of their own, which fork once.
    if sys.argv[1:] in ([], ["pyspark.worker"]):
        import pandas  # noqa: F401  # PyArrow imports it for the first array

        import queryable_state.streaming.runtime.stage  # noqa: F401
    manager()
