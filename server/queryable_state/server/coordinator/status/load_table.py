"""Newest reports of all processes: the load by clients and tasks, restores, failed stores."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from queryable_state.internal.v1 import coordinator_pb2

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.internal.v1.coordinator_pb2 import FailedStore, RunningRestore
    from queryable_state.v1 import hot_keys_pb2

# Reports arrive every five seconds as long as there is load.
_VALID_MS: Final = 20_000
_MOST_PROCESSES: Final = 1024
# A key is not called new again if it pauses for less.
_SINCE_MS: Final = 120_000
_MOST_SINCE: Final = 4096
_WRITE_FAILED: Final = "STORAGE_WRITE_FAILED"


@dataclass(frozen=True)
class RefusedClient:
    """A caller whose queries to one state reached a limit in the last minute."""

    caller: str
    state_name: str
    limit: str
    count: int
    process_id: str
    """The process that refused most of them."""
    since_ms: int


@dataclass(frozen=True)
class BusyKey:
    """The key of a state that was touched most often in the last minute."""

    state_name: str
    operator_uid: str
    side: hot_keys_pb2.HotKey.Side.ValueType
    key_json: str
    count: int
    total: int
    """Touches of all keys of the state."""
    keys: int
    """Keys that are known to be touched, the most touched ones only."""
    since_ms: int


@dataclass(frozen=True)
class FailedStores:
    """The stores of one operator on one server that accept no more writes."""

    server_id: str
    operator_uid: str
    stores: int
    problem: str
    """Of the first of them."""
    is_refused: bool
    """The disk refused the write: it has no room, no quota, or is read-only."""
    since_ms: int


class LoadTable:
    """Keeps the newest report of each process for 20 seconds. Thread-safe, no I/O."""

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._lock = threading.Lock()
        self._reports: dict[str, tuple[int, coordinator_pb2.ReportLoadRequest]] = {}
        self._since: dict[object, tuple[int, int]] = {}
        """First and last time at which something was told."""

    def reported(self, report: coordinator_pb2.ReportLoadRequest) -> None:
        """Replaces the report of a process."""
        with self._lock:
            self._reports.pop(report.process_id, None)
            self._reports[report.process_id] = (self._wall_ms(), report)
            if len(self._reports) > _MOST_PROCESSES:
                del self._reports[next(iter(self._reports))]
            for failed in report.failed_stores:
                self._first_told(_place_of(report.process_id, failed))

    def of_process(self, process_id: str) -> coordinator_pb2.ReportLoadRequest:
        """The valid report of a process; an empty one if there is none."""
        with self._lock:
            at_ms, report = self._reports.get(process_id, (0, None))
            if report is None:
                return coordinator_pb2.ReportLoadRequest()
            if at_ms + _VALID_MS < self._wall_ms():
                return coordinator_pb2.ReportLoadRequest(refused=report.refused)
            return report

    def refused_clients(self, query_id: bytes) -> list[RefusedClient]:
        """Callers with refused queries to states of a job, most refusals first."""
        job_id = query_id.hex()
        by_process: dict[tuple[str, str, str], Counter[str]] = {}
        with self._lock:
            for report in self._valid():
                for each in report.refusals:
                    if each.job_id == job_id:
                        of_client = by_process.setdefault(
                            (each.caller, each.state_name, each.limit), Counter()
                        )
                        of_client[report.process_id] += each.count
            clients = [
                RefusedClient(
                    *client,
                    count=counts.total(),
                    process_id=counts.most_common(1)[0][0],
                    since_ms=self._first_told((query_id, *client)),
                )
                for client, counts in by_process.items()
            ]
        return sorted(clients, key=lambda client: -client.count)

    def busiest_keys(self, query_id: bytes) -> list[BusyKey]:
        """The most touched key of each state and side of a job."""
        totals: Counter[tuple[str, str, int]] = Counter()
        counts: dict[tuple[str, str, int], Counter[str]] = {}
        with self._lock:
            for report in self._valid():
                for load in report.states:
                    if load.query_id != query_id:
                        continue
                    uids = {each.state_name: each.operator_uid for each in load.hot_keys.totals}
                    for total in load.hot_keys.totals:
                        totals[total.state_name, total.operator_uid, total.side] += total.total
                    for key in load.hot_keys.keys:
                        if key.key_json:
                            of_state = (key.state_name, uids[key.state_name], key.side)
                            counts.setdefault(of_state, Counter())[key.key_json] += key.count
            found = []
            for (state_name, uid, side), keys in counts.items():
                [(key_json, count)] = keys.most_common(1)
                found.append(
                    BusyKey(
                        state_name=state_name,
                        operator_uid=uid,
                        side=side,  # type: ignore[arg-type]  # the key of a dict is an int
                        key_json=key_json,
                        count=count,
                        total=totals[state_name, uid, side],
                        keys=len(keys),
                        since_ms=self._first_told((query_id, state_name, side, key_json)),
                    )
                )
        return found

    def failed_stores(self, query_id: bytes) -> list[FailedStores]:
        """The stores of a job that accept no more writes, by server and operator."""
        by_place: dict[tuple[str, bytes, str], list[FailedStore]] = {}
        with self._lock:
            for report in self._valid():
                for failed in report.failed_stores:
                    if failed.subtask.query_id == query_id:
                        place = _place_of(report.process_id, failed)
                        by_place.setdefault(place, []).append(failed)
            return [
                FailedStores(
                    server_id=place[0],
                    operator_uid=place[2],
                    stores=len(stores),
                    problem=stores[0].problem,
                    is_refused=stores[0].reason == _WRITE_FAILED,
                    since_ms=self._first_told(place),
                )
                for place, stores in sorted(by_place.items(), key=lambda each: each[0])
            ]

    def restores(self, server_id: str, query_id: bytes) -> dict[tuple[str, int], RunningRestore]:
        """The restores of a job that go on in a server, by operator uid and subtask."""
        return {
            (each.subtask.operator_uid, each.subtask.index): each
            for each in self.of_process(server_id).restores
            if each.subtask.query_id == query_id
        }

    def _valid(self) -> list[coordinator_pb2.ReportLoadRequest]:
        now_ms = self._wall_ms()
        return [report for at_ms, report in self._reports.values() if at_ms + _VALID_MS >= now_ms]

    def _first_told(self, what: object) -> int:
        now_ms = self._wall_ms()
        first_ms, last_ms = self._since.pop(what, (now_ms, now_ms))
        if last_ms + _SINCE_MS < now_ms:
            first_ms = now_ms
        self._since[what] = (first_ms, now_ms)
        if len(self._since) > _MOST_SINCE:
            del self._since[next(iter(self._since))]
        return first_ms


def _place_of(server_id: str, failed: FailedStore) -> tuple[str, bytes, str]:
    return server_id, failed.subtask.query_id, failed.subtask.operator_uid
