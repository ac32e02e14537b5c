"""Slot sharing groups of Flink: names and resources, kept and returned.

Spark assigns tasks to executors, so a group has no effect on a job.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

_UNITS: Final = ("bytes", "kb", "mb", "gb", "tb")


@dataclass(frozen=True, order=True)
class MemorySize:
    """A number of bytes."""

    bytes_size: int

    def __post_init__(self) -> None:
        """Raises InvalidRequestError for a negative number."""
        if self.bytes_size < 0:
            raise InvalidRequestError(f"a memory size is at least 0 bytes, not {self.bytes_size}")

    @staticmethod
    def of_mebi_bytes(mebi_bytes: int) -> MemorySize:
        """A number of mebibytes (1024 * 1024 bytes)."""
        return MemorySize(mebi_bytes << 20)

    def get_bytes(self) -> int:
        """The number of bytes."""
        return self.bytes_size

    def get_kibi_bytes(self) -> int:
        """The number of whole kibibytes."""
        return self.bytes_size >> 10

    def get_mebi_bytes(self) -> int:
        """The number of whole mebibytes."""
        return self.bytes_size >> 20

    def get_gibi_bytes(self) -> int:
        """The number of whole gibibytes."""
        return self.bytes_size >> 30

    def get_tebi_bytes(self) -> int:
        """The number of whole tebibytes."""
        return self.bytes_size >> 40

    def __str__(self) -> str:
        """The size in the largest unit that divides it."""
        number, unit = self.bytes_size, 0
        while number and number % 1024 == 0 and unit + 1 < len(_UNITS):
            number, unit = number // 1024, unit + 1
        return f"{number} {_UNITS[unit]}"


@dataclass(frozen=True)
class SlotSharingGroup:
    """A group of operators that share slots; made by `builder(name)`.

    The resources are all unknown, or at least the CPU cores and the task heap memory are known.
    """

    name: str
    cpu_cores: float | None = None
    task_heap_memory: MemorySize | None = None
    task_off_heap_memory: MemorySize | None = None
    managed_memory: MemorySize | None = None
    external_resources: Mapping[str, float] = field(default_factory=dict, hash=False)

    @staticmethod
    def builder(name: str) -> Builder:
        """A builder of a group without resources."""
        if not name:
            raise InvalidRequestError("the name of a slot sharing group is empty")
        return SlotSharingGroup.Builder(name)

    def get_name(self) -> str:
        """The name."""
        return self.name

    def get_cpu_cores(self) -> float | None:
        """CPU cores of a slot; None: unknown."""
        return self.cpu_cores

    def get_task_heap_memory(self) -> MemorySize | None:
        """Heap memory of tasks; None: unknown."""
        return self.task_heap_memory

    def get_task_off_heap_memory(self) -> MemorySize | None:
        """Off-heap memory of tasks; None: unknown."""
        return self.task_off_heap_memory

    def get_managed_memory(self) -> MemorySize | None:
        """Managed memory; None: unknown."""
        return self.managed_memory

    def get_external_resources(self) -> dict[str, float]:
        """Amounts of external resources by name."""
        return dict(self.external_resources)

    class Builder:
        """Builder of a group; each method but `build` returns it."""

        def __init__(self, name: str) -> None:
            self._made = SlotSharingGroup(name)

        def set_cpu_cores(self, cpu_cores: float) -> SlotSharingGroup.Builder:
            """Sets the CPU cores of a slot."""
            if cpu_cores <= 0:
                raise InvalidRequestError(f"cpu_cores must be greater than 0, not {cpu_cores}")
            return self._with(cpu_cores=float(cpu_cores))

        def set_task_heap_memory(self, task_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Sets the heap memory of tasks."""
            if task_heap_memory.get_bytes() == 0:
                raise InvalidRequestError("task_heap_memory must be greater than 0 bytes")
            return self._with(task_heap_memory=task_heap_memory)

        def set_task_heap_memory_mb(self, task_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            """Sets the heap memory of tasks in mebibytes."""
            return self.set_task_heap_memory(MemorySize.of_mebi_bytes(task_heap_memory_mb))

        def set_task_off_heap_memory(
            self, task_off_heap_memory: MemorySize
        ) -> SlotSharingGroup.Builder:
            """Sets the off-heap memory of tasks."""
            return self._with(task_off_heap_memory=task_off_heap_memory)

        def set_task_off_heap_memory_mb(
            self, task_off_heap_memory_mb: int
        ) -> SlotSharingGroup.Builder:
            """Sets the off-heap memory of tasks in mebibytes."""
            return self.set_task_off_heap_memory(MemorySize.of_mebi_bytes(task_off_heap_memory_mb))

        def set_managed_memory(self, managed_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Sets the managed memory."""
            return self._with(managed_memory=managed_memory)

        def set_managed_memory_mb(self, managed_memory_mb: int) -> SlotSharingGroup.Builder:
            """Sets the managed memory in mebibytes."""
            return self.set_managed_memory(MemorySize.of_mebi_bytes(managed_memory_mb))

        def set_external_resource(self, name: str, value: float) -> SlotSharingGroup.Builder:
            """Sets the amount of an external resource."""
            return self._with(external_resources={**self._made.external_resources, name: value})

        def build(self) -> SlotSharingGroup:
            """The group. Raises InvalidRequestError if only a part of its resources is known."""
            made = self._made
            if made == SlotSharingGroup(made.name):
                return made
            if made.cpu_cores is None or made.task_heap_memory is None:
                raise InvalidRequestError(
                    f"slot sharing group {made.name!r}: call set_cpu_cores() and "
                    "set_task_heap_memory() too, or set no resource"
                )
            return replace(
                made,
                task_off_heap_memory=made.task_off_heap_memory or MemorySize(0),
                managed_memory=made.managed_memory or MemorySize(0),
            )

        def _with(self, **resources: Any) -> SlotSharingGroup.Builder:
            self._made = replace(self._made, **resources)
            return self
