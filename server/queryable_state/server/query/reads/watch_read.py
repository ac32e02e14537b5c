"""`WatchKvState` request: the watched keys, and the messages of its answer."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.server.query.admission import check_json, check_longest, check_number_of_keys
from queryable_state.server.query.scan_query import KeyGroupRun
from queryable_state.server.query.watch_query import WatchQuery
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.keys.key_end import key_end
from queryable_state.wire.operator_state import refuse_watch
from queryable_state.wire.schema.types import TypeInfo

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

    from queryable_state.server.config.limits import Limits
    from queryable_state.server.query.router import Router
    from queryable_state.v1 import watch_pb2
    from queryable_state.wire.located_state import LocatedState

# JSON of more changes is written on a thread.
_WRITTEN_AT_ONCE = 16
_KEY_GROUP_BYTES = 2


@dataclass(frozen=True)
class WatchRead:
    """A `WatchKvState` call, translated into a query."""

    located: LocatedState
    query: WatchQuery
    json: bool
    """True to answer in JSON."""

    @classmethod
    def of(
        cls, request: watch_pb2.WatchKvStateRequest, located: LocatedState, limits: Limits
    ) -> WatchRead:
        """Parses a request; raises `InvalidRequestError` for invalid keys or positions."""
        refuse_watch(located.registration)
        groups = located.registration.max_parallelism
        keys = _keys(request, located, limits)
        check_longest("position", (request.after_change,), limits)
        after_batch = request.after_batch if request.HasField("after_batch") else None
        if request.after_change and after_batch is None:
            raise InvalidRequestError("after_change is a position in a batch: set after_batch, too")
        if after_batch is not None and after_batch < -1:
            raise InvalidRequestError(
                f"after_batch is {after_batch}: give the last batch that was handled, or -1 for "
                "all since the first batch"
            )
        if request.groups and not request.placement_version:
            raise InvalidRequestError("groups are for requests of a proxy to an owner")
        runs = tuple(KeyGroupRun(each.first, each.last) for each in request.groups)
        query = WatchQuery(
            state_id=located.state_id,
            keys=keys,
            prefix=_prefix(request, located, limits),
            groups=() if keys else runs or (KeyGroupRun(0, groups - 1),),
            after_batch=after_batch,
            after_change=request.after_change,
            placement_version=request.placement_version,
            every_batch=request.every_batch,
        )
        if keys and query.prefix:
            raise InvalidRequestError("a watch has keys or a prefix, not both")
        if not all(0 <= run.first <= run.last < groups for run in query.groups):
            raise InvalidRequestError(
                f"the watched key groups are not within 0 to {groups - 1}, those of "
                f"{located.describe()}"
            )
        return cls(located, query, request.json)

    async def messages(
        self, router: Router
    ) -> AsyncGenerator[watch_pb2.WatchKvStateResponse, None]:
        """Yields the router's messages in the requested form; closing it ends the watch."""
        async with aclosing(router.watch(self.query, self.located)) as messages:
            async for message in messages:
                if self.json and message.changes:
                    if len(message.changes) <= _WRITTEN_AT_ONCE:
                        self._write_json(message.changes)
                    else:
                        await asyncio.to_thread(self._write_json, message.changes)
                yield message

    def _write_json(self, changes: Iterable[watch_pb2.KvChange]) -> None:
        texts = self.located.json
        for change in changes:
            change.key_json = texts.key_text(change.key)
            if change.element:
                change.map_key_json = texts.map_key_text(change.element)
            if change.HasField("value"):
                change.value_json = texts.record_text(change.value)
            if change.HasField("old_value"):
                change.old_value_json = texts.record_text(change.old_value)
            for name in ("key", "element", "value", "old_value"):
                change.ClearField(name)


def _keys(
    request: watch_pb2.WatchKvStateRequest, located: LocatedState, limits: Limits
) -> tuple[bytes, ...]:
    """The wire keys of a request; raises unless each is one whole key."""
    check_number_of_keys(len(request.keys) + len(request.keys_json), limits)
    for text in request.keys_json:
        check_json("key", text, limits)
    check_longest("encoded key", request.keys, limits)
    registration = located.registration
    end = key_end(TypeInfo.from_proto(registration.key_type))
    for key in request.keys:
        group = int.from_bytes(key[:_KEY_GROUP_BYTES], "big")
        if end(key, _KEY_GROUP_BYTES) != len(key) or group >= registration.max_parallelism:
            raise InvalidRequestError(
                f"key {key[:16].hex()}... ({len(key)} bytes) is not exactly one key of "
                f"{located.describe()}: send key group (2 bytes) and the whole encoded key, or a "
                "prefix"
            )
    keys = {*request.keys, *map(located.json.wire_key, request.keys_json)}
    return tuple(sorted(keys))


def _prefix(request: watch_pb2.WatchKvStateRequest, located: LocatedState, limits: Limits) -> bytes:
    if request.WhichOneof("prefix") == "prefix_json":
        check_json("prefix_json", request.prefix_json, limits)
        return located.json.prefix(request.prefix_json)
    check_longest("encoded key", (request.prefix_key,), limits)
    return request.prefix_key
