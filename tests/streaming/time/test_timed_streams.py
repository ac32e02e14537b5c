"""Streams of functions with timers, without Spark."""

from __future__ import annotations

from collections.abc import Iterator  # noqa: TC003 - read from annotations
from typing import TYPE_CHECKING, Any

from tests.runtime.stateless.chains import stream

from queryable_state.streaming import KeyedProcessFunction, Types

if TYPE_CHECKING:
    import pytest


class EmitsByTimers(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> None:
        """Emits nothing."""

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[str]:
        yield ctx.get_current_key()


def test_the_type_of_what_only_timers_emit_is_that_of_their_annotation(
    caplog: pytest.LogCaptureFixture,
) -> None:
    keyed = stream("at timestamp, k string", "at").key_by("k")
    assert keyed.process(EmitsByTimers()).get_type() == Types.STRING()
    assert not caplog.records
