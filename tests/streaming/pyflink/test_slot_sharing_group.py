"""Slot sharing groups and memory sizes of PyFlink, which are kept and returned."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryable_state.streaming import MemorySize, SlotSharingGroup
from queryable_state.wire.errors import InvalidRequestError


def test_a_group_has_the_resources_of_its_builder() -> None:
    group = (
        SlotSharingGroup.builder("heavy")
        .set_cpu_cores(2)
        .set_task_heap_memory_mb(64)
        .set_task_off_heap_memory(MemorySize.of_mebi_bytes(16))
        .set_managed_memory_mb(8)
        .set_external_resource("fpga", 0.5)
        .build()
    )
    assert (group.get_name(), group.get_cpu_cores()) == ("heavy", 2.0)
    assert group.get_task_heap_memory() == MemorySize(64 * 1024 * 1024)
    assert group.get_task_off_heap_memory() == MemorySize.of_mebi_bytes(16)
    assert group.get_managed_memory() == MemorySize.of_mebi_bytes(8)
    assert group.get_external_resources() == {"fpga": 0.5}
    assert len({group, SlotSharingGroup.builder("heavy").build()}) == 2


def test_memory_that_is_not_set_is_zero_if_the_resources_are_known() -> None:
    group = SlotSharingGroup.builder("g").set_cpu_cores(1).set_task_heap_memory_mb(1).build()
    assert group.get_managed_memory() == group.get_task_off_heap_memory() == MemorySize(0)


def test_a_group_without_resources_knows_only_its_name() -> None:
    group = SlotSharingGroup.builder("plain").build()
    assert group == SlotSharingGroup("plain")
    assert group.get_cpu_cores() is None
    assert group.get_task_heap_memory() is None
    assert group.get_external_resources() == {}


def test_a_part_of_the_resources_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match=r"'g'.*set_task_heap_memory"):
        SlotSharingGroup.builder("g").set_cpu_cores(1).build()
    with pytest.raises(InvalidRequestError, match="greater than 0 bytes"):
        SlotSharingGroup.builder("g").set_task_heap_memory(MemorySize(bytes_size=0))
    with pytest.raises(InvalidRequestError, match="cpu_cores must be greater than 0"):
        SlotSharingGroup.builder("g").set_cpu_cores(0)
    with pytest.raises(InvalidRequestError, match="is empty"):
        SlotSharingGroup.builder("")
    with pytest.raises(InvalidRequestError, match="at least 0 bytes, not -1"):
        MemorySize(-1)


@given(st.integers(0, 2**60))
def test_a_memory_size_is_read_in_whole_units(number: int) -> None:
    size = MemorySize(number)
    assert size.get_bytes() == number
    assert size.get_kibi_bytes() == number // 2**10
    assert size.get_mebi_bytes() == number // 2**20
    assert size.get_gibi_bytes() == number // 2**30
    assert size.get_tebi_bytes() == number // 2**40
    assert size < MemorySize(number + 1)


def test_a_memory_size_is_shown_in_the_largest_unit_that_divides_it() -> None:
    sizes = [0, 1, 1536, 2048, 3 << 20, 5 << 30, 7 << 40, 4096 << 40]
    assert [str(MemorySize(size)) for size in sizes] == [
        "0 bytes",
        "1 bytes",
        "1536 bytes",
        "2 kb",
        "3 mb",
        "5 gb",
        "7 tb",
        "4096 tb",
    ]
