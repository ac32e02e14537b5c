"""Name and place of a task, for the functions that it opens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from queryable_state.streaming.stateless.metrics import MetricGroup


class TaskInfo(ABC):
    """Name, subtask and metrics of a task."""

    @abstractmethod
    def get_task_name(self) -> str:
        """Name of the operator."""

    @abstractmethod
    def get_index_of_this_subtask(self) -> int:
        """Index of the subtask, from 0."""

    @abstractmethod
    def get_number_of_parallel_subtasks(self) -> int:
        """Parallelism of the operator."""

    @abstractmethod
    def get_max_number_of_parallel_subtasks(self) -> int:
        """Number of key groups."""

    @abstractmethod
    def get_metrics_group(self) -> MetricGroup:
        """Metrics of the function; state servers serve them to Prometheus."""
