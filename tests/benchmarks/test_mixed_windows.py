"""The windows of runs and their report."""

from __future__ import annotations

import pytest
from benchmarks.closed_loop import LoopSample
from benchmarks.mixed.cpu_by_part import PARTS, part_of
from benchmarks.mixed.measuring import Plan, Window, rows_within
from benchmarks.mixed.report import kept, look_ups_of, report, rows_of

BATCHES = [
    {"began_s": 0.0, "ms": 900, "rows": 100},
    {"began_s": 1.0, "ms": 1900, "rows": 100},
    {"began_s": 3.0, "ms": 500, "rows": 100},
]


def window(in_flight: int, rows: float, p99_us: float = 0.0) -> Window:
    """A window with a number of rows a second."""
    sample = LoopSample(
        per_second=1000.0, p50_us=100.0, p99_us=p99_us, p999_us=p99_us, answers=10, cpu_us=1.0
    )
    return Window(
        in_flight=in_flight,
        rows_per_second=rows,
        look_ups=sample if in_flight else None,
        cpus=dict.fromkeys(PARTS, 0.5),
    )


def test_a_window_counts_the_share_of_each_batch_that_lies_in_it() -> None:
    assert rows_within(BATCHES, 0.5, 2.0) == pytest.approx(50 + 50)


def test_a_batch_lasts_until_the_next_begins_and_the_last_until_its_end() -> None:
    assert rows_within(BATCHES, 0.0, 3.0) == pytest.approx(200)
    assert rows_within(BATCHES, 3.25, 9.0) == pytest.approx(50)


def test_a_window_without_batches_has_no_rows() -> None:
    assert rows_within(BATCHES, 4.0, 5.0) == 0.0


def test_a_run_goes_there_and_back_and_every_other_run_starts_with_the_last_window() -> None:
    plan = Plan(in_flight=(0, 1, 64), seconds=1.0, settle_s=0.5)
    assert plan.turns(0) == [0, 1, 64, 64, 1, 0]
    assert plan.turns(1) == [64, 1, 0, 0, 1, 64]


def test_rows_kept_are_compared_within_a_run_and_not_between_runs() -> None:
    fast = [window(0, 100), window(1, 90), window(1, 70), window(0, 100)]
    slow = [window(0, 50), window(1, 20), window(1, 20), window(0, 50)]
    assert kept([fast], 1).median == pytest.approx(0.8)
    spread = kept([fast, slow], 1)
    assert [spread.lowest, spread.highest] == pytest.approx([0.4, 0.8])
    assert rows_of([fast, slow], 0).median == 75


def test_figures_of_look_ups_are_of_the_windows_with_that_number_in_flight() -> None:
    runs = [[window(0, 1), window(1, 1, 5.0), window(64, 1, 70.0), window(1, 1, 9.0)]]
    assert look_ups_of(runs, 1, lambda sample: sample.p99_us).median == 7.0


def test_a_report_has_ratios_only_if_both_jobs_were_run() -> None:
    run = [window(0, 100.0, 0), window(1, 90.0, 5.0)]
    peer = [window(0, 200.0, 0), window(1, 90.0, 10.0)]
    both = report({"ours": [run], "redis": [peer]})
    assert "| rows kept         |      | 2.00 |" in both
    assert "| p99               |      | 0.50 |" in both
    assert "ours / peer" not in report({"ours": [run]})


@pytest.mark.parametrize(
    ("command", "part"),
    [
        (["/opt/jdk/bin/java", "-cp", "benchmarks.mixed.job"], "JVM"),
        (["redis-server 127.0.0.1:4000"], "redis-server"),
        (["python", "-P", "-m", "queryable_state.server.state_server"], "state server"),
        (["python", "-m", "benchmarks.mixed.job", "ours"], "driver's Python"),
        (["python", "-m", "pyspark.daemon", "pyspark.worker"], "Python workers"),
    ],
)
def test_the_command_of_a_process_tells_its_part(command: list[str], part: str) -> None:
    assert part_of(command) == part
