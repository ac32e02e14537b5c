"""Enums of PyFlink's execution configuration."""

from __future__ import annotations

from enum import Enum


class ExecutionMode(Enum):
    """Flink's data exchange between operators; kept without effect."""

    PIPELINED = 0
    PIPELINED_FORCED = 1
    BATCH = 2
    BATCH_FORCED = 3


class InputDependencyConstraint(Enum):
    """Flink's condition to schedule a task; kept without effect."""

    ANY = 0
    ALL = 1


class RuntimeExecutionMode(Enum):
    """Whether a job ends when it has processed the available input."""

    STREAMING = 0
    """The job waits for more input, unless all sources end or the trigger says otherwise."""
    BATCH = 1
    """The job processes the available input and ends."""
    AUTOMATIC = 2
    """Same as STREAMING, which ends when all sources end."""


class TimeCharacteristic(Enum):
    """Flink's time of a job: the clock of `time_window`; else without effect."""

    ProcessingTime = 0
    IngestionTime = 1
    EventTime = 2
