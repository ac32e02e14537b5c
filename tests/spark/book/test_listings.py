"""The programs of examples/book print what the book says they do.

Each expectation is computed from the readings by a few lines of Python.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from queryable_state.client import TimeWindow
from queryable_state.client.blocking import QueryableStateClient
from queryable_state.wire.errors import RestoreMismatchError
from queryable_state.wire.keys.key_groups import KeyGroups, subtask_of
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.spark.book.conftest import Listing
    from tests.spark.conftest import Connect, MakeFeed

    from queryable_state.streaming import StreamExecutionEnvironment

pytestmark = pytest.mark.slow

HIGH = 75.0


def printed(capsys: pytest.CaptureFixture[str]) -> list[Any]:
    """The tuples that a program has printed since the last call, in no order of sensors."""
    lines = capsys.readouterr().out.splitlines()
    return [ast.literal_eval(line) for line in lines if line.startswith("(")]


def readings(rounds: int) -> list[Any]:
    """The readings of the source."""
    found: list[Any] = sys.modules["sensor_source"].sensor_readings(rounds)
    return found


def alerts(rounds: int, threshold_of: Callable[[str], float | None]) -> list[Any]:
    """The differences of two readings of a sensor that are above its threshold, sorted."""
    found = []
    last: dict[str, float] = {}
    for sensor, _, temperature in readings(rounds):
        threshold = threshold_of(sensor)
        if sensor in last and threshold is not None:
            difference = abs(temperature - last[sensor])
            if difference > threshold:
                found.append((sensor, temperature, difference))
        last[sensor] = temperature
    return sorted(found)


def high(rounds: int) -> list[str]:
    """The sensor of each high temperature, in order."""
    return [each.id for each in readings(rounds) if each.temperature > HIGH]


@pytest.mark.parametrize(
    "name",
    [
        "listing_7_1_keyed_state",
        "listing_7_2_flat_map_with_state",
        "listing_7_10_self_cleaning_state",
    ],
)
def test_a_temperature_that_differs_from_the_last_one_raises_an_alert(
    listing: Listing, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    listing(name).main()
    expected = alerts(50, lambda _: 1.7)
    assert sorted(printed(capsys)) == expected
    assert len(expected) > 20


@pytest.mark.parametrize(
    ("name", "parts"),
    [("listing_7_3_operator_list_state", 1), ("listing_7_4_split_list_state", 10)],
)
def test_counts_of_subtasks_are_dealt_out_at_another_parallelism(
    listing: Listing, capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, parts: int
) -> None:
    program = listing(name)
    program.main(["--state-dir", str(tmp_path), "--parallelism", "2"])
    before = printed(capsys)
    counts = [max(count for subtask, count in before if subtask == each) for each in (0, 1)]
    assert sorted(before) == [(each, n) for each in (0, 1) for n in range(1, counts[each] + 1)]
    assert sum(counts) == len(high(50))
    program.main(["--state-dir", str(tmp_path), "--parallelism", "3", "--rounds", "100"])
    after = printed(capsys)
    lists = [_split(count, parts) for count in counts]
    dealt = [element for elements in lists for element in elements]
    for subtask in range(3):
        found = [count for each, count in after if each == subtask]
        began = sum(dealt[subtask::3])
        assert found == [*range(began + 1, began + 1 + len(found))]
    assert len(before) + len(after) == len(high(100))


def _split(count: int, parts: int) -> list[int]:
    part, rest = divmod(count, parts)
    return [part + 1] * rest + [part] * (parts - rest)


def test_thresholds_of_a_broadcast_stream_are_set_replaced_and_removed(
    listing: Listing, capsys: pytest.CaptureFixture[str]
) -> None:
    listing("listing_7_5_broadcast_state").main()
    expected = alerts(50, {"sensor_1": 1.2, "sensor_2": 0.9}.get)
    assert sorted(printed(capsys)) == expected
    assert {sensor for sensor, _, _ in expected} == {"sensor_1", "sensor_2"}


def test_a_checkpointed_function_counts_by_sensor_and_by_subtask_over_a_rescale(
    listing: Listing, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    program = listing("listing_7_6_checkpointed_function")
    program.main(["--state-dir", str(tmp_path), "--parallelism", "2"])
    before = printed(capsys)
    program.main(["--state-dir", str(tmp_path), "--parallelism", "3", "--rounds", "100"])
    after = printed(capsys)
    of_subtask = _check_counts(before, 2, [0, 0])
    _check_counts(after, 3, [*of_subtask, 0])
    by_sensor = Counter(high(100))
    assert sorted((sensor, count) for sensor, count, _ in before + after) == sorted(
        (sensor, count) for sensor in by_sensor for count in range(1, by_sensor[sensor] + 1)
    )


def _check_counts(found: list[Any], parallelism: int, began: list[int]) -> list[int]:
    """Checks that each subtask counts on from where it began; returns the last counts."""
    groups = KeyGroups(Types.STRING(), 128)
    counts = list(began)
    for sensor, _, of_subtask in found:
        subtask = subtask_of(groups.of(sensor), parallelism, 128)
        counts[subtask] += 1
        assert of_subtask == counts[subtask]
    return counts


def test_an_operator_with_a_uid_goes_on_and_keeps_its_max_parallelism(
    listing: Listing, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    program = listing("listing_7_8_uid_and_max_parallelism")
    program.main(["--state-dir", str(tmp_path)])
    before = printed(capsys)
    assert sorted(before) == alerts(50, lambda _: 1.7)
    with pytest.raises(RestoreMismatchError, match="max parallelism"):
        program.main(["--state-dir", str(tmp_path), "--rounds", "100", "--max-parallelism", "128"])
    program.main(["--state-dir", str(tmp_path), "--rounds", "100"])
    assert sorted(before + printed(capsys)) == alerts(100, lambda _: 1.7)


def test_operators_without_a_max_parallelism_have_that_of_the_application(
    listing: Listing, capsys: pytest.CaptureFixture[str]
) -> None:
    listing("listing_7_9_application_max_parallelism").main()
    assert capsys.readouterr().out.splitlines() == [
        "maximum has 512 key groups",
        "minimum has 512 key groups",
        "newest has 32 key groups",
    ]


def test_state_in_rocksdb_goes_on_from_an_incremental_checkpoint(
    listing: Listing, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    program = listing("listing_7_11_rocksdb_backend")
    program.main(["--state-dir", str(tmp_path)])
    program.main(["--state-dir", str(tmp_path), "--rounds", "100"])
    lines = set(capsys.readouterr().out.splitlines())
    expected: dict[str, float] = {}
    for sensor, _, temperature in readings(100):
        expected[sensor] = max(temperature, expected.get(sensor, temperature))
    assert lines >= {f"Row(id={k!r}, temperature={v!r})" for k, v in expected.items()}
    assert any((tmp_path / "rocksdb").iterdir())


def test_the_dashboard_shows_the_maximum_temperatures_of_a_running_job(
    listing: Listing,
    env: StreamExecutionEnvironment,
    feed: MakeFeed,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = feed("id string, timestamp bigint, temperature double")
    job_program, dashboard = (
        listing("listing_7_13_queryable_stream"),
        listing("listing_7_14_dashboard"),
    )
    job_program.make_queryable(env.from_dataframe(source.dataframe()))
    source.add(*({"id": f"sensor_{k}", "timestamp": k, "temperature": 20.0 + k} for k in (1, 2, 3)))
    source.add({"id": "sensor_1", "timestamp": 4, "temperature": 30.5})
    source.add({"id": "sensor_2", "timestamp": 5, "temperature": 10.0})
    job = env.execute_async("Track Max Temperature")
    job.process_all_available()
    host, _, port = job.proxy_address().rpartition(":")
    where = [str(job.get_job_id()), "--host", host, "--port", port]
    dashboard.main([*where, "--sensors", "4", "--rounds", "2", "--refresh-s", "0"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "sensor_1\t| sensor_2\t| sensor_3\t| sensor_4"
    assert lines[1:] == ["30.500\t| 22.000\t| 23.000\t| -"] * 2


def test_the_queryable_job_runs_alone_until_it_is_stopped(
    listing: Listing, connect: Connect, capsys: pytest.CaptureFixture[str]
) -> None:
    listing("listing_7_13_queryable_stream").main(["--seconds", "0.1"])
    assert capsys.readouterr().out.startswith("JOB ")


def test_maxima_of_ten_seconds_are_queryable_while_their_window_is_open_and_after_it(
    listing: Listing, feed: MakeFeed, env: StreamExecutionEnvironment
) -> None:
    source = feed("id string, timestamp bigint, temperature double")
    listing("listing_7_12_queryable_windows").make_queryable(env, source.dataframe())
    at = {1_000: 20.0, 9_000: 22.5, 9_500: 21.0, 10_000: 30.0, 12_000: 29.0}
    source.add(
        *({"id": "sensor_1", "timestamp": ms, "temperature": degrees} for ms, degrees in at.items())
    )
    job = env.execute_async("Ten Second Maxima")
    job.process_all_available()
    host, _, port = job.proxy_address().rpartition(":")
    with QueryableStateClient(host, int(port)) as client:
        newest = client.get_kv_state(job.get_job_id(), "maxTemperature", "sensor_1")
        assert newest.value().temperature == 22.5
        live = client.get_windows(job.get_job_id(), "openWindows", "sensor_1")
        assert {window: state.get().temperature for window, state in live.items()} == {
            TimeWindow(10_000, 20_000): 30.0
        }
