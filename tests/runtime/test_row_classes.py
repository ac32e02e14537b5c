"""Functions over dataclasses and named tuples: elements, outputs and states are their instances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from queryable_state.streaming import (
    KeyedProcessFunction,
    MapStateDescriptor,
    RuntimeContext,
    ValueStateDescriptor,
)
from queryable_state.streaming.testing import KeyedOperatorHarness

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass
class Reading:
    sensor: str
    degrees: float


class Warmest(NamedTuple):
    sensor: str
    degrees: float


@dataclass
class Alert:
    reading: Reading
    before: Warmest | None


class KeepWarmest(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.warmest = runtime_context.get_state(ValueStateDescriptor("warmest", Warmest))
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Reading))
        self.alerts = runtime_context.get_map_state(MapStateDescriptor("alerts", int, Alert))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Alert]:
        assert type(value) is Reading
        before = self.warmest.value()
        last = self.last.value()
        assert before is None or type(before) is Warmest
        assert last is None or type(last) is Reading
        if last is not None:
            # The state keeps what was written, not the object.
            last.degrees = -1.0
            assert self.last.value() != last
        self.last.update(value)
        if before is None or value.degrees > before.degrees:
            self.warmest.update(Warmest(value.sensor, value.degrees))
            alert = Alert(value, before)
            self.alerts.put(int(value.degrees), alert)
            assert self.alerts.get(int(value.degrees)) == alert
            yield alert


def test_elements_outputs_and_states_are_instances_of_their_classes() -> None:
    harness = KeyedOperatorHarness(KeepWarmest(), Reading, key_by="sensor", output_type=Alert)
    first = harness.process([Reading("a", 20.0), Reading("a", 19.0)])
    second = harness.process([{"sensor": "a", "degrees": 21.0}])
    assert first == [Alert(Reading("a", 20.0), None)]
    assert second == [Alert(Reading("a", 21.0), Warmest("a", 20.0))]
    assert harness.state("last", "a") == ("a", 21.0)
    assert harness.state("alerts", "a") == {
        20: (("a", 20.0), None),
        21: (("a", 21.0), ("a", 20.0)),
    }
