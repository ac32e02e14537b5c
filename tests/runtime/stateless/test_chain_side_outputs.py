"""Side outputs of functions without state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.runtime.stateless.chains import batches_of, run, specification, stream

from queryable_state.streaming import OutputTag, ProcessFunction, Types
from queryable_state.streaming.runtime.stateless.chain import ChainTask

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

ODD = OutputTag("odd", Types.INT())


class Parity(ProcessFunction):
    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterator[Any]:
        if value % 2:
            yield ODD, value
        else:
            yield value


def test_a_side_output_is_a_stream_of_its_own() -> None:
    made = stream(Types.INT()).process(Parity(), Types.INT())
    made._node.side_outputs = (ODD,)  # type: ignore[union-attr]
    assert run(made, [1, 2, 3, 4]) == [2, 4]
    assert run(made, [1, 2, 3, 4], side="odd") == [1, 3]


def test_a_side_output_that_nobody_reads_is_dropped() -> None:
    assert run(stream(Types.INT()).process(Parity(), Types.INT()), [1, 2]) == [2]


class Both(ProcessFunction):
    """Emits each element to both outputs."""

    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield ODD, value
        yield value


def test_no_side_output_is_lost_however_many_there_are() -> None:
    made = stream(Types.INT()).process(Both(), Types.INT())
    made._node.side_outputs = (ODD,)  # type: ignore[union-attr]
    assert run(made, range(25_000), side="odd", cut=5_000) == list(range(25_000))


class Aside(ProcessFunction):
    """Emits each element to the side output only."""

    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield ODD, value


def test_side_outputs_leave_the_task_while_it_reads_on() -> None:
    made = stream(Types.INT()).process(Aside(), Types.INT())
    made._node.side_outputs = (ODD,)  # type: ignore[union-attr]
    spec, _ = specification(made, "odd")
    read = 0

    def input_() -> Iterator[pa.RecordBatch]:
        nonlocal read
        for batch in batches_of(Types.INT(), range(100_000), cut=10_000):
            read += batch.num_rows
            yield batch

    next(ChainTask(spec, 0).run(input_()))
    assert read < 50_000
