"""Limits that servers and proxies enforce."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from queryable_state.server.config.setting import GIB, KIB, MIB, TIB, SettingsGroup, setting
from queryable_state.v1 import query_pb2

# One message of gRPC and one frame are at most 2 GiB.
_LARGEST_MESSAGE: Final = 2 * GIB - MIB


@dataclass(frozen=True, kw_only=True)
class RecordLimits(SettingsGroup):
    """Limits of one record, which tasks and state servers check."""

    key_bytes: int = setting(64 * KIB, least=8, most=16 * MIB)
    """Maximum bytes of an encoded key, with its key group."""

    value_bytes: int = setting(4 * MIB, least=1, most=GIB)
    """Maximum bytes of an encoded value, list chunk or map entry."""


@dataclass(frozen=True, kw_only=True)
class Limits(RecordLimits):
    """Limits that a server or proxy enforces; its hello sends them to clients."""

    key_json_bytes: int = setting(256 * KIB, least=8, most=64 * MIB)
    """Maximum bytes of a key, or map key, as JSON."""

    request_bytes: int = setting(4 * MIB, least=KIB, most=GIB)
    """Maximum bytes of one request of a client."""

    name_bytes: int = setting(1024, least=36, most=64 * KIB)
    """Maximum bytes of the name of a job or state in a request."""

    batch_keys: int = setting(4096, least=1, most=1_000_000)
    """Maximum keys of one query."""

    queries_in_flight: int = setting(64, least=1, most=100_000)
    """Maximum unanswered queries of one stream."""

    streams: int = setting(4096, least=1, most=1_000_000)
    """Maximum frame connections of one port that have said hello."""

    connections: int = setting(4096, least=1, most=1_000_000)
    """Maximum connections of one port; a frame port counts those that have said hello, and has 64
    places for others."""

    held_bytes: int = setting(64 * MIB, least=MIB, most=TIB)
    """Bytes of one process for incomplete and unanswered requests, and as many for answers that
    clients have not read; each connection has a small share even if they are used up."""

    read_timeout_s: float = setting(10.0, least=0.01, most=3_600)
    """How long a client may take to send one request, or to read any part of its answers."""

    answer_bytes: int = setting(16 * MIB, least=1, most=GIB)
    """Value bytes of one answer, at least `value_bytes`; the client asks again for further keys."""

    prefix_records: int = setting(50_000, least=1, most=10_000_000)
    """Records of one key and namespace that a query may read; it reads them in one step."""

    watches: int = setting(2048, least=1, most=1_000_000)
    """Maximum watches of one port; one connection may have 512 of them, one of a proxy 960."""

    watch_history_bytes: int = setting(16 * MIB, least=0, most=64 * GIB)
    """Bytes of committed changes of one job that a state server keeps, so that watches can resume
    from an earlier batch and slow ones miss nothing; at most 64 batches."""

    message_bytes: int = setting(64 * MIB, least=MIB, most=_LARGEST_MESSAGE)
    """Bytes of one message between tasks, state servers and the coordinator; more than
    `value_bytes` and one MiB."""

    max_staged_bytes: int = setting(GIB, least=1, most=64 * TIB)
    """Maximum bytes staged and not yet committed on one state server; further writes are refused.
    """

    @property
    def frame_bytes(self) -> int:
        """Bytes of one frame; a proxy's frame may be longer than the client's that it splits."""
        return self.request_bytes + (64 << 10)

    def check_relations(self) -> None:
        super().check_relations()
        self.require(
            self.value_bytes <= self.answer_bytes,
            ("value_bytes", "answer_bytes"),
            "a value must fit in an answer; raise answer_bytes or lower value_bytes",
        )
        self.require(
            self.value_bytes + MIB <= self.message_bytes,
            ("value_bytes", "message_bytes"),
            "a value and 1 MiB must fit in a message; raise message_bytes or lower value_bytes",
        )

    def to_proto(self) -> query_pb2.Limits:
        """The limits as sent in a hello."""
        return query_pb2.Limits(
            key_bytes=self.key_bytes,
            value_bytes=self.value_bytes,
            batch_keys=self.batch_keys,
            queries_in_flight=self.queries_in_flight,
            request_bytes=self.request_bytes,
            key_json_bytes=self.key_json_bytes,
        )
