"""Look-ups and watches of keys that may be in any partition of any server."""

from __future__ import annotations

import asyncio
import dataclasses
from contextlib import aclosing
from typing import TYPE_CHECKING

from queryable_state.server.native_state.store.native_view import in_several_partitions
from queryable_state.server.query.query_trace import QueryTrace
from queryable_state.server.query.reads.unary_reads import value_positions
from queryable_state.server.query.scan_query import KeyGroupRun
from queryable_state.v1 import errors_pb2, query_pb2, watch_pb2
from queryable_state.wire.errors import Reason
from queryable_state.wire.keys.store_keys import changed_record_key

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

    from queryable_state.server.native_state.server.owners import Owners
    from queryable_state.server.query.watch_query import WatchQuery

    Ask = Callable[[query_pb2.Query], Awaitable[list[query_pb2.Answer]]]

_MESSAGE_CHANGES = 512

# The part of a query's deadline spent asking, so that the client receives the reason in time.
_ASKING_PART = 0.9


class EveryServer:
    """Asks all servers for keys, as of one batch.

    The first server asked chooses the batch. One that has compacted it is ahead of the first one,
    so it chooses then, and the others wait for its batch.
    """

    def __init__(self, ask: Ask, owners: Owners, *, default_deadline_ms: int) -> None:
        """`ask` returns all parts of the answer of the server that owns the keys' groups."""
        self._ask = ask
        self._owners = owners
        self._default_deadline_ms = default_deadline_ms

    async def answer(self, query: query_pb2.Query, partitions: int) -> query_pb2.Answer:
        """The whole answer to a query of a state with so many partitions. Never raises.

        A key that a server cannot read fails, also if another server has it: it may be in several
        partitions, and is refused then.
        """
        trace = QueryTrace(self._owners.server_id, query_pb2.PROXY, query.keys)
        parts = await self._parts(query, self._owners.shares(partitions))
        answer = _merged(query, parts)
        if query.explain:
            for part in parts:
                trace.proto.steps.extend(part.trace.steps)
                if part.values or not trace.proto.owner_id:
                    trace.proto.owner_id = part.trace.owner_id or self._owners.server_id
                    trace.proto.owner_address = part.trace.owner_address
                    trace.proto.subtask = part.trace.subtask
                    trace.proto.operator_uid = part.trace.operator_uid
                    trace.proto.placement_version = part.trace.placement_version
            trace.proto.asks_all_partitions = True
            trace.put_into(answer)
        return answer

    async def _parts(
        self, query: query_pb2.Query, shares: list[list[int]]
    ) -> list[query_pb2.Answer]:
        """The answers of every server, or the refusal of one."""
        loop = asyncio.get_running_loop()
        deadline_ms = query.deadline_ms or self._default_deadline_ms
        until_s = loop.time() + deadline_ms * _ASKING_PART / 1000
        answers: list[query_pb2.Answer] = []

        def ask(share: Sequence[int], version: int | None) -> Awaitable[list[query_pb2.Answer]]:
            part = _of_share(query, share, version)
            part.deadline_ms = max(1, int((until_s - loop.time()) * 1000))
            return self._ask(part)

        for _ in tuple(shares):
            answers = await ask(shares[0], None)
            if any(each.HasField("error") for each in answers):
                return answers
            version = answers[-1].info.version
            others = await asyncio.gather(*(ask(share, version) for share in shares[1:]))
            answers += [answer for parts in others for answer in parts]
            ahead = [
                number
                for number, parts in enumerate(others, 1)
                if any(each.error.reason == Reason.VERSION_GONE for each in parts)
            ]
            if not ahead or query.HasField("at_version"):
                break
            shares.insert(0, shares.pop(ahead[0]))
        return answers


def _of_share(
    query: query_pb2.Query, partitions: Sequence[int], version: int | None
) -> query_pb2.Query:
    """The query of all its keys in the partitions of one server; `version`: as of this batch."""
    part = query_pb2.Query()
    part.CopyFrom(query)
    group = partitions[0].to_bytes(2)
    part.keys[:] = [group + key[2:] for key in query.keys]
    part.partitions[:] = partitions
    if version is not None:
        part.ClearField("min_version")
        part.ClearField("max_staleness_ms")
        part.consistency = query_pb2.COMMITTED
        part.at_version = version
    return part


def _merged(query: query_pb2.Query, parts: Sequence[query_pb2.Answer]) -> query_pb2.Answer:
    """One answer of those of every server, one of which may have a key."""
    found: dict[int, bytes] = {}
    failed: dict[int, errors_pb2.Error] = {}
    twice: list[int] = []
    for part in parts:
        if part.HasField("error"):
            return query_pb2.Answer(id=query.id, last=True, error=part.error)
        failed |= {at: failure.error for failure in part.failed for at in failure.indexes}
        for at, value in zip(value_positions(part, len(query.keys)), part.values, strict=True):
            if at in found:
                twice.append(at)
            found[at] = value
    for at in twice:
        failed.setdefault(at, in_several_partitions().to_proto())
    answer = query_pb2.Answer(id=query.id, last=True, info=parts[0].info)
    answer.indexes.extend(sorted(found.keys() - failed))
    answer.values.extend(found[at] for at in answer.indexes)
    answer.missing.extend(at for at in range(len(query.keys)) if at not in found | failed)
    for at, error in sorted(failed.items(), key=lambda each: each[0]):
        answer.failed.add(indexes=[at], error=error)
    return answer


def watch_of_every_key(query: WatchQuery, partitions: int) -> WatchQuery:
    """The watch of the whole state, from the begin of the batch at which a watch of keys begins."""
    groups = (KeyGroupRun(0, partitions - 1),)
    return dataclasses.replace(query, keys=(), groups=groups, after_change=b"")


async def changes_of_keys(
    query: WatchQuery, found: AsyncGenerator[watch_pb2.WatchKvStateResponse, None]
) -> AsyncGenerator[watch_pb2.WatchKvStateResponse, None]:
    """The changes of the keys of a watch, of the messages of a watch of all keys.

    A change is found with the partition that Spark chose, and gets the key group of the key as it
    is watched. It is part of the store key by which the changes of a batch are ordered, so they
    are ordered anew once the batch is complete.
    """
    watched = {key[2:]: key for key in query.keys}
    first = -1 if query.after_batch is None else query.after_batch + 1
    changes: dict[bytes, watch_pb2.KvChange] = {}
    async with aclosing(found) as messages:
        async for message in messages:
            for change in message.changes:
                key = watched.get(change.key[2:])
                if key is not None:
                    change.key = key
                    changes[changed_record_key(change)] = change
            if message.changes and not message.complete:
                continue
            del message.changes[:]
            after = query.after_change if message.batch == first else b""
            ordered = [changes[each] for each in sorted(changes) if each > after]
            changes = {}
            while len(ordered) > _MESSAGE_CHANGES:
                part = watch_pb2.WatchKvStateResponse()
                part.CopyFrom(message)
                part.complete = False
                part.changes.extend(ordered[:_MESSAGE_CHANGES])
                del ordered[:_MESSAGE_CHANGES]
                yield part
            message.changes.extend(ordered)
            yield message
