"""Texts of states for people: short, whatever the states have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.testing.changes import ReplaceList

if TYPE_CHECKING:
    from queryable_state.client import QueryableStateClient
    from queryable_state.server.testing.cluster import InProcessJob


async def test_the_text_of_a_short_state_is_that_of_its_value(
    client: QueryableStateClient, job: InProcessJob
) -> None:
    for name, key, value in (
        ("last", "sensor_1", "1.0"),
        ("seen", "sensor_1", "['a', 'b']"),
        ("counts", "sensor_1", "{'x': 1, 'y': 2}"),
    ):
        state = await client.get_kv_state("sensors", name, key)
        assert repr(state).endswith(f": {value}>")


async def test_the_text_of_a_large_state_is_short_and_its_value_is_whole(
    client: QueryableStateClient, job: InProcessJob
) -> None:
    numbers = {f"key {number}": number for number in range(10_000)}
    words = [f"word {number}" for number in range(10_000)]
    await job.run(2, {"counts": {"a": numbers}, "seen": {"a": ReplaceList(words)}})
    for name in ("counts", "seen"):
        state = await client.get_kv_state("sensors", name, "a")
        assert "..." in repr(state)
        assert len(repr(state)) < 1_000
    counts = await client.get_kv_state("sensors", "counts", "a")
    assert dict(counts.items()) == numbers
    seen = await client.get_kv_state("sensors", "seen", "a")
    assert seen.get() == words


async def test_the_text_of_a_long_string_has_its_begin_and_its_end(
    client: QueryableStateClient, job: InProcessJob
) -> None:
    text = f"begin{'-' * 1_000_000}end"
    async with client.watch("sensors", "seen", keys=["a"]) as watch:
        await job.run(2, {"seen": {"a": [text]}})
        state = await client.get_kv_state("sensors", "seen", "a")
        change = await anext(watch)
    for each in (state, change):
        assert "'begin-" in repr(each)
        assert "-end'" in repr(each)
        assert len(repr(each)) < 1_000
    assert state.get() == change.new == [text]
