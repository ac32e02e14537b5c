"""Files of two subtasks that were exchanged, or copied over one another."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from tests.state_server.restore.stored import BACKENDS, KEYS, config

from queryable_state.server.state_server.restore.key_placement import KeyPlacement
from queryable_state.server.storage.heap.store import HeapStateStore
from queryable_state.server.storage.overlay import OverlayBuilder
from queryable_state.server.storage.rocksdb.store import RocksDBStateStore
from queryable_state.server.testing.changes import Windows
from queryable_state.server.testing.cluster import InProcessCluster, declare
from queryable_state.v1 import registration_pb2
from queryable_state.wire.changes import ChangeBlockBuilder, read_block
from queryable_state.wire.errors import CheckpointError, CorruptDataError
from queryable_state.wire.keys.key_groups import KeyGroups
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE, window_namespace
from queryable_state.wire.keys.time_window import TimeWindow
from queryable_state.wire.keys.timer_keys import Clock, timer_element
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    from pathlib import Path

    from queryable_state.server.storage.store import StateStore

STATES = {
    "values": (declare("state"), 1),
    "timers": (declare("state", kind=registration_pb2.TIMER), {(Clock.EVENT_TIME, 5000): True}),
    "windows": (declare("state"), Windows({TimeWindow(0, 1000): 1})),
}


def _exchange(first: Path, second: Path) -> None:
    aside = first.with_name("aside")
    first.rename(aside)
    second.rename(first)
    aside.rename(second)


def _copy_over(first: Path, second: Path) -> None:
    """The folder of one subtask takes the place of another's."""
    shutil.rmtree(second)
    shutil.copytree(first, second)


def _copy_content(first: Path, second: Path) -> None:
    """A file of one subtask takes the place of another's, under the name of the latter."""
    [source], [target] = first.iterdir(), second.iterdir()
    shutil.copyfile(source, target)


DAMAGES = [_exchange, _copy_over, _copy_content]


async def _damaged_job(tmp_path: Path, backend: str, state: str, damage: Any, left: str) -> None:
    declared, change = STATES[state]
    async with InProcessCluster(tmp_path, config=config(backend=backend)) as cluster:
        job = cluster.job("job", declared, durable=True, parallelism=2)
        await job.run(0, {})
        await job.run(1, {"state": dict.fromkeys(KEYS, change)})
        [server] = cluster.servers
        executor_id = server.settings.executor_id
        await cluster.kill_server(server)
        folder = job.root / "changelog/1"
        if left == "no manifest":
            [manifest] = folder.glob("_manifest-*")
            manifest.unlink()
        first, second = sorted((folder / "operator").iterdir())
        damage(first, second)
        await cluster.add_server(executor_id=executor_id)
        job = job.restart()
        with pytest.raises(CheckpointError) as refused:
            await job.run(2, {})
        assert "changelog/1/operator/" in refused.value.message


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("state", STATES)
async def test_changelogs_without_a_manifest_are_refused_by_name(
    tmp_path: Path, state: str, damage: Any
) -> None:
    await _damaged_job(tmp_path, "heap", state, damage, "no manifest")


@pytest.mark.parametrize("backend", BACKENDS)
async def test_changelogs_of_a_manifest_are_refused_by_name(tmp_path: Path, backend: str) -> None:
    await _damaged_job(tmp_path, backend, "values", _exchange, "manifest")


GROUPS = KeyGroups(Types.STRING(), 128)
ELEMENTS = {
    "values": VOID_NAMESPACE,
    "timers": VOID_NAMESPACE + timer_element(Clock.EVENT_TIME, 5000),
    "windows": window_namespace(0, 1000),
}


def _stored(state: str, first: int, last: int, *, shift: int = 0) -> list[bytes]:
    """The stored keys of some key groups, ascending; `shift` moves them to other ones."""
    found = []
    for key in (f"key {number}" for number in range(500)):
        wire_key = GROUPS.wire_key(key)
        group = int.from_bytes(wire_key[:2]) + shift
        if first <= group <= last:
            found.append(group.to_bytes(2) + wire_key[2:] + ELEMENTS[state])
    return sorted(found)


@pytest.mark.parametrize("state", STATES)
def test_a_sample_of_a_block_shows_keys_of_another_key_group(state: str) -> None:
    placement = KeyPlacement({7: STATES[state][0]})
    placement.check("file", 7, _stored(state, 0, 63), (0, 63))
    with pytest.raises(CorruptDataError, match=r"file is of key groups 64 to 127, but has a key"):
        placement.check("file", 7, _stored(state, 0, 63), (64, 127))
    with pytest.raises(CorruptDataError, match=r"file has a key of state 'state' in key group"):
        placement.check("file", 7, _stored(state, 64, 127, shift=64), (64, 127))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("state", STATES)
def test_a_sample_of_a_store_shows_keys_of_another_key_group(
    tmp_path: Path, state: str, backend: str
) -> None:
    declared = STATES[state][0]
    placement = KeyPlacement({7: declared})

    def check(keys: list[bytes], first: int, last: int) -> None:
        builder, overlay = ChangeBlockBuilder(7), OverlayBuilder()
        for key in keys:
            builder.put(key, b"" if state == "timers" else b"value")
        for block in builder.finish():
            overlay.add_clipped(read_block(block), 0, 127)
        store: StateStore = (
            HeapStateStore()
            if backend == "heap"
            else RocksDBStateStore(tmp_path / f"{first}-{len(keys)}-{keys[0].hex()}")
        )
        try:
            store.add_state(7, timers=declared.kind == registration_pb2.TIMER)
            store.load(0, overlay.build())
            placement.check_store("file", store, (first, last))
        finally:
            store.destroy()

    right = _stored(state, 0, 63)
    check(right, 0, 63)
    with pytest.raises(CorruptDataError, match="file is of key groups 64 to 127"):
        check(right, 64, 127)
    with pytest.raises(CorruptDataError, match="it hashes to key group"):
        check(_stored(state, 64, 127, shift=64), 64, 127)
