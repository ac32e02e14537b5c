"""Modes of checkpoints: PyFlink's CheckpointingMode and ExternalizedCheckpointCleanup."""

from __future__ import annotations

from enum import IntEnum


class CheckpointingMode(IntEnum):
    """Delivery guarantee of a job's state.

    Both modes run the same exactly-once protocol. Spark never replays a committed batch, so a
    weaker protocol would lose records instead of repeating them.
    """

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1


class ExternalizedCheckpointCleanup(IntEnum):
    """Cleanup of a job's checkpoints when the job is cancelled; a failed job keeps them."""

    DELETE_ON_CANCELLATION = 0
    RETAIN_ON_CANCELLATION = 1
    NO_EXTERNALIZED_CHECKPOINTS = 2
    """Same as `DELETE_ON_CANCELLATION`; the checkpoints do not count as externalized."""


ExternalizedCheckpointRetention = ExternalizedCheckpointCleanup
"""The same enum under the name of Flink 1.20."""
