"""Merged windows of real state servers, asked for by their merged bounds in every way."""

from __future__ import annotations

import asyncio
import json
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.conftest import Terminal
from tests.runtime.windows.windowed import SESSIONS, harness

from queryable_state.client import TimeWindow, UnknownKeyOrNamespaceError
from queryable_state.client.blocking import QueryableStateClient
from queryable_state.streaming import (
    AggregateFunction,
    EventTimeSessionWindows,
    EventTimeTrigger,
    MergingWindowAssigner,
    SessionWindowTimeGapExtractor,
    TimeWindowSerializer,
)
from queryable_state.streaming import TimeWindow as OwnWindow
from queryable_state.streaming.testing.local_cluster import LocalCluster

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from queryable_state.client import KvState

Found = dict[tuple[int, int], int]


class AlignedSessions(MergingWindowAssigner[Any, OwnWindow]):
    """Windows of 4 ms; those that overlap become one, whose bounds are multiples of 10 ms.

    A merged window is so none that any element had, nor the cover of those that it had.
    """

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[OwnWindow]:
        return [OwnWindow(timestamp, timestamp + 4)]

    def merge_windows(self, windows: Iterable[OwnWindow], callback: Any) -> None:
        class Aligned:
            def merge(self, to_be_merged: Any, merge_result: OwnWindow) -> None:
                start, end = merge_result.start // 10 * 10, -(-merge_result.end // 10) * 10
                callback.merge(to_be_merged, OwnWindow(start, end))

        OwnWindow.merge_windows(windows, Aligned())

    def get_default_trigger(self, env: object) -> Any:
        return EventTimeTrigger()

    def get_window_serializer(self) -> Any:
        return TimeWindowSerializer()

    def is_event_time(self) -> bool:
        return True


class GapOfValue(SessionWindowTimeGapExtractor):
    """The gap is ten times the value."""

    def extract(self, element: Any) -> int:
        return int(element.v) * 10


class Total(AggregateFunction):
    """The sum of the values."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + int(value.v)

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, one: int, other: int) -> int:
        return one + other


def _reduced(windowed: Any) -> Any:
    return windowed.reduce(
        lambda one, other: (one.k, max(one.ts, other.ts), one.v + other.v),
        queryable_name="totals",
    )


def _aggregated(windowed: Any) -> Any:
    return windowed.aggregate(
        Total(), accumulator_type="BIGINT", output_type="BIGINT", queryable_name="totals"
    )


OPERATORS = {"reduce": _reduced, "aggregate": _aggregated}


@dataclass(frozen=True)
class Case:
    """Batches of elements (time, value) of one key, and its windows after each."""

    name: str
    assigner: Any
    batches: list[tuple[list[tuple[int, int]], Found]]


CASES = [
    Case(
        "sessions",
        SESSIONS,
        [
            ([(10, 1), (8, 2), (30, 3)], {(8, 20): 3, (30, 40): 3}),
            ([(36, 4), (5, 1)], {(5, 20): 4, (30, 46): 7}),
            ([(20, 5)], {(5, 46): 16}),
            ([(60, 1), (50, 1)], {(5, 46): 16, (50, 70): 2}),
        ],
    ),
    Case(
        "dynamic gaps",
        EventTimeSessionWindows.with_dynamic_gap(GapOfValue()),
        [
            ([(0, 1), (40, 3)], {(0, 10): 1, (40, 70): 3}),
            ([(5, 2)], {(0, 25): 3, (40, 70): 3}),
            ([(20, 2), (80, 1)], {(0, 70): 8, (80, 90): 1}),
        ],
    ),
    Case(
        "aligned",
        AlignedSessions(),
        [
            ([(11, 1), (13, 2), (42, 1)], {(10, 20): 3, (42, 46): 1}),
            ([(44, 1)], {(10, 20): 3, (40, 50): 2}),
            ([(19, 1)], {(10, 30): 4, (40, 50): 2}),
            ([(30, 1), (39, 1)], {(10, 50): 8}),
        ],
    ),
]


@pytest.fixture(scope="module", params=["heap", "rocksdb"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("cluster"), servers=2, backend=request.param) as made:
        yield made


@pytest.fixture(scope="module")
def web(cluster: LocalCluster) -> str:
    """Address of REST and the page."""
    return cluster.run(cluster._cluster.add_proxy(web="on")).web_address


@pytest.mark.parametrize("kind", OPERATORS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_merged_window_is_asked_for_by_its_bounds(
    case: Case,
    kind: str,
    cluster: LocalCluster,
    web: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In the client, REST and page links, commands, scans, Arrow and watches."""
    job = f"{case.name} {kind}"
    windows = harness(case.assigner, OPERATORS[kind], parallelism=2, owner=cluster.start_query(job))
    address = cluster.proxy_address()
    host, _, port = address.rpartition(":")
    every: set[tuple[int, int]] = set()
    watched: Found = {}
    with QueryableStateClient(host, int(port)) as client:
        asked = Asked(client, web, Terminal(address, capsys), job, kind)
        watch: Any = None
        for elements, expected in case.batches:
            windows.process([("a", time, value) for time, value in elements])
            every |= expected.keys() | {(time, time + 10) for time, _ in elements}
            if watch is None:
                watch = client.watch(job, "totals", after_batch=-1)
            with_gone = sorted(every - expected.keys())
            asked.check(expected, with_gone)
            asked.follow(watch, watched, expected)
        watch.close()


@dataclass(frozen=True)
class Asked:
    """One state with windows, asked for in every way."""

    client: QueryableStateClient
    web: str
    terminal: Terminal
    job: str
    kind: str

    def number(self, value: Any) -> int:
        """The total in a value: of a row, or as it is."""
        if isinstance(value, dict):
            value = value["v"]
        return int(value if self.kind == "aggregate" else getattr(value, "v", value))

    def value(self, state: KvState | None) -> int:
        """The total of a state that is there."""
        assert state is not None
        return self.number(state.get())

    def check(self, expected: Found, gone: list[tuple[int, int]]) -> None:
        client, job = self.client, self.job
        ranges: list[tuple[int | None, int | None]] = [(None, None)]
        ranges += [(start + shift, None) for start, _ in expected for shift in (0, 1)]
        ranges += [(None, start + shift) for start, _ in expected for shift in (0, 1)]
        for start, end in ranges:
            wanted = {
                each: value
                for each, value in expected.items()
                if (start is None or each[0] >= start) and (end is None or each[0] < end)
            }
            found = client.get_windows(job, "totals", "a", start, end)
            assert {
                (window.start, window.end): self.number(state.get())
                for window, state in found.items()
            } == wanted
            assert self.by_rest("windows", from_ms=start, to_ms=end) == wanted
            assert self.by_command(start, end) == wanted
        assert self.by_scan() == self.by_rest_scan() == self.by_frame() == expected
        for (start, end), value in expected.items():
            one = client.get_kv_state(job, "totals", "a", window=TimeWindow(start, end))
            assert self.number(one.get()) == value
            # The link of the page to a window.
            answer = self.rest("value", key="a", window_start=start, window_end=end)
            assert self.number(answer["value"]) == value
            with client.scan(job, "totals", window=TimeWindow(start, end)) as scan:
                assert [(key, self.value(state)) for key, state in scan] == [("a", value)]
        for start, end in gone:
            with pytest.raises(UnknownKeyOrNamespaceError):
                client.get_kv_state(job, "totals", "a", window=TimeWindow(start, end))
        newest = client.get_newest_window(job, "totals", "a")
        assert newest.window == TimeWindow(*max(expected))

    def rest(self, what: str, **query: Any) -> Any:
        text = urllib.parse.urlencode({k: v for k, v in query.items() if v is not None})
        path = f"/api/v1/jobs/{urllib.parse.quote(self.job)}/states/totals/{what}?{text}"
        with urllib.request.urlopen(self.web + path) as answer:
            return json.loads(answer.read())

    def by_rest(self, what: str, **query: Any) -> Found:
        return self._found(self.rest(what, key="a", newest=50, **query)["windows"])

    def by_rest_scan(self) -> Found:
        keys: list[Any] = []
        cursor = None
        while cursor is not None or not keys:
            page = self.rest("scan", limit=1, cursor=cursor)
            keys += page["keys"]
            cursor = page.get("cursor")
        assert {each["key"] for each in keys} == {"a"}
        return self._found(keys)

    def by_command(self, start: int | None, end: int | None) -> Found:
        bounds = [] if start is None else ["--from", str(start)]
        bounds += [] if end is None else ["--to", str(end)]
        ran = asyncio.run(
            self.terminal.run("windows", "totals", "a", "--job", self.job, "--json", *bounds)
        )
        return self._found(ran.json["windows"])

    def by_scan(self) -> Found:
        with self.client.scan(self.job, "totals") as scan:
            return {(key.window.start, key.window.end): self.value(state) for key, state in scan}

    def by_frame(self) -> Found:
        frame = self.client.scan(self.job, "totals").to_pandas()
        column = "value" if self.kind == "aggregate" else "v"
        bounds = (frame[name].astype("int64") for name in ("window_start", "window_end"))
        return dict(zip(zip(*bounds, strict=True), frame[column], strict=True))

    def _found(self, rows: Any) -> Found:
        return {
            (each["window"]["start_ms"], each["window"]["end_ms"]): self.number(each["value"])
            for each in rows
        }

    def follow(self, watch: Any, watched: Found, expected: Found) -> None:
        """Applies changes to `watched` until it is `expected`, as after each batch it must be."""
        while watched != expected:
            change = next(watch)
            window = (change.window.start, change.window.end)
            assert change.key == "a"
            if change.new is None:
                del watched[window]
            else:
                watched[window] = self.number(change.new)
