"""Findings on what processes report: stores that fail, clients that reach limits, hot keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.coordinator.status.findings.finding import WARNING, finding
from queryable_state.server.status_texts import count_text
from queryable_state.v1 import hot_keys_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.server.coordinator.status.load_table import LoadTable
    from queryable_state.v1 import status_pb2

# A client that meets a limit now and then, and waits as it is told, is refused less often.
_LEAST_REFUSED = 20
_MOST_CLIENTS = 3

# A key is hot with this share of all touches at this rate, or with most of them at a lower rate,
# among at least so many keys: a state with few keys is made so.
_SHARE = 0.3
_MAJORITY = 0.5
_LEAST_OF_MAJORITY = 600
_LEAST_A_MINUTE = 6000
_LEAST_KEYS = 10


def load_findings(load: LoadTable, query_id: bytes) -> Iterator[status_pb2.Finding]:
    """The findings of one job."""
    yield from _failed_stores(load, query_id)
    yield from _refused_clients(load, query_id)
    yield from _hot_keys(load, query_id)


def _failed_stores(load: LoadTable, query_id: bytes) -> Iterator[status_pb2.Finding]:
    for failed in load.failed_stores(query_id):
        yield finding(
            "STORAGE_NOT_WRITABLE" if failed.is_refused else "STORE_FAILED",
            WARNING,
            failed.since_ms,
            f"State server {failed.server_id} cannot write "
            f"{count_text(failed.stores, 'store')} of operator {failed.operator_uid!r}: "
            f"{failed.problem}. The state is answered, but what changes stays in memory and "
            "checkpoints fail",
            "Make room on the disk of this server, which `queryable-state servers` shows with "
            "its host and log; the next batch or checkpoint then replaces the stores, and nothing "
            "is lost.",
        )


def _refused_clients(load: LoadTable, query_id: bytes) -> Iterator[status_pb2.Finding]:
    clients = [
        client for client in load.refused_clients(query_id) if client.count >= _LEAST_REFUSED
    ]
    for client in clients[:_MOST_CLIENTS]:
        yield finding(
            "CLIENT_LIMITED",
            WARNING,
            client.since_ms,
            f"Client {client.caller!r} sends more than it may: "
            f"{count_text(client.count, 'request')} to state {client.state_name!r} in the last "
            f"minute were over the limit `{client.limit}` of the access file and were refused, "
            f"most of them by {client.process_id}",
            "Make this client ask less often, or for many keys in one request, and wait "
            f"as the refusals say; if it needs more, raise `{client.limit}` in the access file, "
            "which takes effect without a restart.",
        )


def _hot_keys(load: LoadTable, query_id: bytes) -> Iterator[status_pb2.Finding]:
    told: set[tuple[str, str]] = set()
    for key in load.busiest_keys(query_id):
        is_busy = key.count >= max(_LEAST_A_MINUTE, _SHARE * key.total)
        has_most = key.count >= max(_LEAST_OF_MAJORITY, _MAJORITY * key.total)
        if key.keys < _LEAST_KEYS or not (is_busy or has_most):
            continue
        share = f"{100 * min(1.0, key.count / key.total):.0f} %"
        show = "`queryable-state hotkeys JOB` shows the shares"
        if key.side == hot_keys_pb2.HotKey.READ:
            yield finding(
                "HOT_KEY",
                WARNING,
                key.since_ms,
                f"Key {key.key_json} of state {key.state_name!r} gets {share} of all queries, "
                f"{key.count:,} of {key.total:,} in the last minute, and one state server answers "
                "them all",
                f"Let the clients keep the value of this key for a while, or watch it instead of "
                f"asking again and again; {show}.",
            )
        elif (key.operator_uid, key.key_json) not in told:
            # All states of an operator have the same rows.
            told.add((key.operator_uid, key.key_json))
            yield finding(
                "HOT_KEY",
                WARNING,
                key.since_ms,
                f"Key {key.key_json} has {share} of all rows of operator {key.operator_uid!r}, "
                f"{key.count:,} of {key.total:,} in the last minute, and one task processes them "
                "all",
                "If batches get slow, find out why the source sends this key so often; combine "
                "its rows before `key_by`, or spread it by a salted key and sum in a second "
                f"operator; {show}.",
            )
