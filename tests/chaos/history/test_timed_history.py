"""Timers and windows of a few rows, as they are by hand."""

from __future__ import annotations

from tests.chaos.history.timed_history import EVENT, PROCESSING, TimedHistory
from tests.chaos.jobs.workload import DELAY_MS, SILENCE_MS, TICK_MS, WINDOW_MS, Row

NOW = 5_000_000
START = 10 * WINDOW_MS


def row(at: int, *, number: int = 1, key: str = "a") -> Row:
    return Row(key, "g", number, 7, START + at)


def test_a_key_is_silent_once_the_watermark_has_passed_its_last_row() -> None:
    history = TimedHistory()
    history.advance(NOW, [row(0), row(100)])
    assert history.pending("a") == [[EVENT, START + 100 + SILENCE_MS]]
    history.advance(NOW, [row(DELAY_MS + 100 + SILENCE_MS, key="b")])
    assert history.silences["a"] == [0, 0, START + 100 + SILENCE_MS]
    history.advance(NOW, [])
    assert history.silences["a"] == [1, 0, 0]
    assert history.pending("a") == []
    assert history.watermark == START + 100 + SILENCE_MS


def test_spark_may_leave_two_batches_out_of_the_watermark_but_not_three() -> None:
    history = TimedHistory()
    wrong = []
    watermarks = [0, 0, *[START + 20 - DELAY_MS] * 4]
    for number, watermark in enumerate(watermarks):
        history.advance(NOW, [row(10 * number + 10)], watermark)
        wrong.append(history.is_wrong)
    assert wrong == [*[False] * 5, True]
    history.advance(NOW, [], START + 61 - DELAY_MS)
    assert history.is_wrong, "no row made it"
    history.advance(NOW, [], START)
    assert history.is_wrong, "it went back"


def test_a_tick_comes_with_the_first_batch_at_its_time() -> None:
    history = TimedHistory()
    history.advance(NOW, [row(0, number=40)])
    assert history.pending("a")[0] == [PROCESSING, NOW + TICK_MS]
    history.advance(NOW + TICK_MS - 1, [])
    assert history.silences["a"][1] == 0
    history.advance(NOW + TICK_MS, [])
    assert history.silences["a"][1] == 1


def test_windows_fire_with_the_watermark_of_the_batch_before() -> None:
    history = TimedHistory()
    history.advance(NOW, [row(0), row(1)])
    history.advance(NOW, [row(WINDOW_MS - 1 + DELAY_MS)])
    history.advance(NOW, [])
    assert history.watermark == START + WINDOW_MS - 1
    assert history.fired == []
    history.advance(NOW, [row(5), row(6)])
    # At its end, and again with each late row.
    assert history.fired == [["g", START, 7 * count, count] for count in (2, 3, 4)]
    assert history.live("g")[0] == [START, ["g", 1, 28, 4]]
    history.advance(NOW, [row(4 * WINDOW_MS)])
    history.advance(NOW, [])
    history.advance(NOW, [row(7)])
    assert [start for start, _ in history.live("g")] == [START + 4 * WINDOW_MS]
