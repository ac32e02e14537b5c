"""Staged incidents: the cause and the next step stand in `status` and on the page in a minute."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.counting_jobs import KEYS, readings
from tests.spark.event_time.clock_functions import READING, Alarm, OfReading, reading
from tests.spark.functions import COUNTS, READINGS, CountPerKey
from tests.spark.incidents.conftest import QUERIES_PER_S, TOKENS
from tests.spark.incidents.failing import FailingOn
from tests.waiting import until

from queryable_state.client import QueryableStateError
from queryable_state.client.blocking import QueryableStateClient
from queryable_state.streaming import Duration, RestartStrategies, Types, WatermarkStrategy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.spark.conftest import MakeFeed
    from tests.spark.feed import Feed
    from tests.spark.incidents.on_call import OnCall

    from queryable_state.streaming import JobClient, StreamExecutionEnvironment

    Looking = Callable[[JobClient], OnCall]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def counting(
    env: StreamExecutionEnvironment, source: Feed, name: str, function: Any = None
) -> JobClient:
    """A job that counts readings by sensor, once it has processed what there is."""
    stream = env.from_dataframe(source.dataframe()).key_by("sensor")
    stream.process(function or CountPerKey(), COUNTS).uid("counts")
    return env.execute_async(name)


@contextlib.contextmanager
def going_on(source: Feed, *rows: dict[str, Any]) -> Iterator[None]:
    """Rows that keep coming, twice a second."""
    stop = threading.Event()

    def add() -> None:
        while not stop.wait(0.5):
            source.add(*rows)

    adding = threading.Thread(target=add)
    adding.start()
    try:
        yield
    finally:
        stop.set()
        adding.join()


def test_a_healthy_job_has_no_findings_also_after_a_restart(
    env: StreamExecutionEnvironment, feed: MakeFeed, on_call: Looking
) -> None:
    source = feed(READINGS)
    for _ in range(5):
        source.add(*readings())
    job = counting(env, source, "healthy")
    job.process_all_available()
    on_call(job).sees_nothing("healthy")
    job.cancel()
    source.add(*readings())
    again = counting(env, source, "healthy")
    again.process_all_available()
    until(lambda: again.query.lastProgress is not None)
    on_call(again).sees_nothing("healthy")


def test_a_state_server_is_killed(
    env: StreamExecutionEnvironment, feed: MakeFeed, on_call: Looking
) -> None:
    """`kill -9`: which process, where its log is, who has its state."""
    source = feed(READINGS)
    source.add(*readings())
    job = counting(env, source, "loses a server")
    job.process_all_available()
    held = [each for each in on_call(job).rest("servers")["servers"] if each["lease"] == "HELD"]
    lost = max(held, key=lambda each: each["key_groups"])
    os.kill(lost["pid"], signal.SIGKILL)
    with going_on(source, *readings()):
        on_call(job).sees(
            "loses a server",
            "SERVER_LOST",
            f"process {lost['pid']}",
            lost["log_file"],
            "key groups were taken by",
            step="Look why this process ended",
        )


def test_a_record_on_which_the_function_raises(
    env: StreamExecutionEnvironment, feed: MakeFeed, on_call: Looking
) -> None:
    """While the job is started again and again: the record, its key and the exception."""
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(100, 1_000))
    source = feed(READINGS)
    source.add(*readings())
    job = counting(env, source, "poisoned", FailingOn(-273.5))
    job.process_all_available()
    source.add(*readings(["sensor-7"], temperature=-273.5))
    person = on_call(job)
    finding = person.sees(
        "poisoned",
        "POISON_RECORD",
        '"sensor-7"',
        "-273.5",
        "no such temperature",
        step="skip such a record",
    )
    assert "counts" in finding["message"]
    assert 'raise ValueError("no such temperature")' in person.command("errors", "poisoned")
    assert person.job("poisoned")["info"]["health"] == "RESTARTING"
    jobs = person.command("jobs")
    assert "no such temperature" in jobs, jobs


def test_a_key_takes_most_rows(
    env: StreamExecutionEnvironment, feed: MakeFeed, on_call: Looking
) -> None:
    source = feed(READINGS)
    source.add(*readings(["sensor-3"] * 9_000 + KEYS * 50))
    job = counting(env, source, "hot")
    job.process_all_available()
    finding = on_call(job).sees(
        "hot", "HOT_KEY", 'Key "sensor-3"', "operator 'counts'", step="queryable-state hotkeys hot"
    )
    # 82 %, or more while the other subtask has not processed its rows.
    share = re.search(r"(\d+) % of all rows", finding["message"])
    assert share, finding
    assert 80 <= int(share[1]) <= 95


def test_a_source_stops_and_holds_the_watermark(
    env: StreamExecutionEnvironment, feed: MakeFeed, on_call: Looking
) -> None:
    """Rows of the other source go on."""
    stopping, other = feed("k STRING, t LONG"), feed("k STRING, t LONG")
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(500))
    strategy = strategy.with_timestamp_assigner(OfReading())
    both = [
        env.from_dataframe(each.dataframe())
        .map(reading, READING)
        .assign_timestamps_and_watermarks(strategy)
        for each in (stopping, other)
    ]
    keyed = both[0].union(both[1]).key_by(lambda each: each[0], Types.STRING())
    keyed.process(Alarm(), Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])).uid("alarms")
    for source in (stopping, other):
        source.add({"k": "a", "t": 1_700_000_000_000})
    job = env.execute_async("stuck")
    job.process_all_available()
    with going_on(other, {"k": "b", "t": 1_700_000_600_000}):
        finding = on_call(job).sees(
            "stuck", "WATERMARK_STUCK", "arrived", "has had no rows", step="idle input"
        )
    assert "input 0" in finding["message"], finding


def test_a_client_sends_more_than_it_may(
    env: StreamExecutionEnvironment, feed: MakeFeed, on_call: Looking
) -> None:
    source = feed(READINGS)
    source.add(*readings())
    job = counting(env, source, "flooded")
    job.process_all_available()
    host, _, port = job.proxy_address().rpartition(":")
    stop = threading.Event()

    def flood() -> None:
        address = (host, int(port))
        with QueryableStateClient(*address, token=TOKENS["dashboard"], timeout_s=1.0) as client:
            while not stop.is_set():
                with contextlib.suppress(QueryableStateError):
                    client.get_kv_state("flooded", "count", KEYS[0])

    clients = [threading.Thread(target=flood) for _ in range(8)]
    for client in clients:
        client.start()
    try:
        person = on_call(job)
        person.sees(
            "flooded",
            "CLIENT_LIMITED",
            "'dashboard'",
            "'count'",
            "`queries_per_s`",
            step="raise `queries_per_s`",
        )
    finally:
        stop.set()
        for client in clients:
            client.join()
    servers = person.rest("servers")["servers"]
    assert any(each["most_refused"] == "dashboard" for each in servers), json.dumps(servers)
    assert sum(each["refused_last_minute"] for each in servers) > QUERIES_PER_S
