"""What the model counts: keys, what each batch adds to them, and the tasks that do."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from queryable_state.server.testing.cluster import declare
from queryable_state.v1 import registration_pb2
from queryable_state.wire.changes import BlockSums, ChangeBlockBuilder
from queryable_state.wire.keys.key_groups import key_group_range, subtask_of
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE, record_key
from queryable_state.wire.state_codecs import StateCodecs

if TYPE_CHECKING:
    from tests.protocol.servers import Server

    from queryable_state.internal.v1 import backend_pb2, changes_pb2

QUERY = b"q" * 16
UID = "counts"
MOST = 8
KEYS = [f"key {number}" for number in range(8)]
STATE = declare("count", "string", "bigint", max_parallelism=MOST)
CODECS = StateCodecs(STATE, pickler=pickle.dumps)
WIRE_KEYS = {key: CODECS.key_groups.wire_key(key) for key in KEYS}
GROUPS = {key: wire[0] << 8 | wire[1] for key, wire in WIRE_KEYS.items()}
STORE_KEYS = {key: record_key(wire, VOID_NAMESPACE, b"") for key, wire in WIRE_KEYS.items()}


def added(batch: int, plan: int, key: str) -> int:
    """What a batch adds to a key, by the offsets it was planned with; 0: it has no row of it."""
    number = int(key.split()[1])
    return (batch * 7 + plan * 13 + number * 5) % 4 * int(10 ** (batch % 5))


@dataclass
class Attempt:
    """A task that has begun, and what it read."""

    subtask: backend_pb2.Subtask
    run_id: bytes
    batch: int
    plan: int
    token: changes_pb2.Token
    server: Server
    state_id: int
    values: dict[str, int]
    acknowledged: bool = False
    """True once a seal of it was acknowledged."""


@dataclass
class Batch:
    """The batch Spark runs, or runs again."""

    number: int
    plan: int
    """Which offsets it was planned with."""
    acknowledged: set[int] = field(default_factory=set)
    """Key groups of the subtasks whose tasks have succeeded in this run."""
    in_sink: set[int] | None = None
    """Those whose output the sink has committed, for good; None: it has not."""


def changes_of(attempt: Attempt, wrong: int = 0) -> tuple[list[bytes], changes_pb2.Seal]:
    """What the attempt changes; with `wrong`, values that are too high by that."""
    sums = BlockSums()
    builder = ChangeBlockBuilder(attempt.state_id, sums)
    for key, value in attempt.values.items():
        more = added(attempt.batch, attempt.plan, key) + wrong
        if more:
            builder.put(STORE_KEYS[key], CODECS.value.encode(value + more))
    blocks = list(builder.finish())
    return blocks, sums.seal(attempt.token, fingerprint=attempt.plan, row_count=len(blocks))


def declared() -> registration_pb2.StateRegistration:
    state = registration_pb2.StateRegistration()
    state.CopyFrom(STATE)
    state.operator_uid = UID
    return state


def index_of(key: str, parallelism: int) -> int:
    return subtask_of(GROUPS[key], parallelism, MOST)


def key_groups_of(subtask: backend_pb2.Subtask) -> tuple[int, int]:
    return key_group_range(subtask.index, subtask.parallelism, subtask.max_parallelism)


def groups_of_subtask(index: int, parallelism: int) -> range:
    first, last = key_group_range(index, parallelism, MOST)
    return range(first, last + 1)
