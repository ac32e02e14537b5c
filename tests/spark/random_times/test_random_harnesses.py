"""The operators of random jobs in harnesses equal the models, over rescales and any clocks."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.chaos.history.batch_log import Batch
from tests.native_state.answers.records import plain
from tests.spark.random_times.random_run import FILES
from tests.spark.random_times.test_random_times import by_key, in_any_order, plain_late
from tests.spark.random_times.timed_harnesses import TimedHarnesses
from tests.spark.random_times.timed_model import (
    TimedModel,
    last_file,
    random_files,
    random_steps,
)
from tests.spark.random_times.timed_shape import FOR_EVER_MS, random_shape

if TYPE_CHECKING:
    from collections.abc import Callable

_START_MS = 1_800_000_000_000


@pytest.mark.slow
def test_random_operators_in_harnesses_put_out_what_the_models_do(
    program_seed: int, record_property: Callable[[str, object], None]
) -> None:
    """In each batch; and kept states without a TTL have at the end what the model has."""
    random = Random(program_seed)
    shape = random_shape(random)
    record_property("program", f"seed {program_seed}: {shape}")
    files = [*random_files(random, FILES, shape.keys), last_file(), last_file()[:0]]
    steps = random_steps(random)
    model, harnesses = TimedModel(steps, files, shape), TimedHarnesses(steps, shape)
    now_ms, latest_ms, watermark_ms = _START_MS, 0, 0
    for number in range(len(files)):
        now_ms += random.choice((0, 1, 100, 700, 3_000))
        watermark_ms = max(watermark_ms, latest_ms - shape.delay_ms)
        batch = Batch(range(number, number + 1), now_ms, watermark_ms)
        wanted, elements = model.run(batch), model.elements(batch)
        latest_ms = max([latest_ms, *(at for _, at, *_ in elements)])
        if number and random.random() < 0.2:
            harnesses.rescale(random.choice((1, 2, 3, 5)))
        found = harnesses.run(batch, elements)
        found["late"] = plain_late(found["late"])
        assert in_any_order(found) == in_any_order({name: wanted[name] for name in found})
        for each in ("scripted", "kept"):
            assert by_key(found[each]) == by_key(wanted[each])
    if shape.ttl_ms == FOR_EVER_MS:
        for name in ("value", "reducing", "aggregating", "map", "list"):
            stored = {key: model.kept.stored(name, key) for key in shape.every_key}
            assert {
                repr(plain(key)): plain(value) for key, value in harnesses.kept(name).items()
            } == {
                repr(plain(shape.typed_key(key))): plain(value)
                for key, value in stored.items()
                if value is not None
            }
    record_property("outcome", "exact")
