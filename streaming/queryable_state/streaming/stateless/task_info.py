"""Name and place of a task, for the functions that it opens."""

from __future__ import annotations

from abc import ABC, abstractmethod


class TaskInfo(ABC):
    """Name and subtask of a task."""

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
