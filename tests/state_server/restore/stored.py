"""A durable job of known batches, and what its servers hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.server.coordinator import JobConfig
from queryable_state.server.testing.cluster import InProcessCluster, declare
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE, record_key
from queryable_state.wire.state_codecs import StateCodecs

if TYPE_CHECKING:
    from queryable_state.server.testing.cluster import InProcessJob


BACKENDS = ["heap", "rocksdb"]


KEYS = [f"key {number}" for number in range(60)]


def config(**fields: Any) -> JobConfig:
    """No file is inlined, so that there is something to damage; checkpoints by hand."""
    return JobConfig(**{"inline_bytes": 0, "checkpoint_interval_ms": 0, **fields})


def sensors(cluster: InProcessCluster, **fields: Any) -> InProcessJob:
    return cluster.job("sensors", declare("last", "string", "bigint"), durable=True, **fields)


def batch(number: int) -> dict[str, dict[str, int]]:
    """Each key's value by a rule; not every key is in every batch."""
    return {"last": {key: number * 1000 + i for i, key in enumerate(KEYS) if i % (number + 1) == 0}}


def after(*numbers: int) -> dict[str, int]:
    """What every key has once these batches are committed."""
    values: dict[str, int] = {}
    for number in numbers:
        values.update(batch(number)["last"])
    return values


def stored(cluster: InProcessCluster) -> dict[str, int]:
    """What all servers together answer for the keys."""
    found: dict[str, int] = {}
    for server in cluster.servers:
        for subtask in server.table.subtasks():
            for state_id, registration in subtask.states.items():
                codecs = StateCodecs(registration)
                for key in KEYS:
                    wire_key = codecs.key_groups.wire_key(key)
                    group = int.from_bytes(wire_key[:2])
                    if subtask.first_key_group <= group <= subtask.last_key_group:
                        value = subtask.store.get(state_id, record_key(wire_key, VOID_NAMESPACE))
                        if value is not None:
                            found[key] = codecs.value.decode(value)
    return found
