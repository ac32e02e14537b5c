"""Stages of a job: stateful operators that share one shuffle and one task per subtask.

Operators of the same depth and with the same subtasks form a stage, also if their keys differ: the
rows of all its inputs go through one shuffle, each row marked with its input. So the cost of a
batch hardly depends on the number of operators. Operators whose inputs have the same upstream and
the same keys read the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.streaming.runtime.columns.event_time import EVENT_TIME_COLUMN

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from queryable_state.streaming.graph.event_times import EventTimes
    from queryable_state.streaming.graph.job_graph import JobGraph
    from queryable_state.streaming.graph.keys import KeySelector
    from queryable_state.streaming.graph.nodes import OperatorInput, OperatorNode, StreamNode


@dataclass(frozen=True, kw_only=True)
class StageInput:
    """Rows that one or several operators of a stage read."""

    upstream: StreamNode
    keys: KeySelector | None
    """None: the rows have no key."""
    is_broadcast: bool
    """True if every subtask receives every row; else rows without keys are spread by their hash."""
    columns: tuple[str, ...]
    """Columns that the operators need: keys, elements, order and event time."""
    hashed: tuple[str, ...]
    """Columns in the row check beside the key."""
    is_ordered: bool
    """True if an operator needs the input partition of each row."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Operators in one task, and what they read and emit."""

    operators: tuple[OperatorNode, ...]
    inputs: tuple[StageInput, ...]
    reads: tuple[tuple[tuple[OperatorInput, int], ...], ...]
    """For each operator its inputs, each with the index of the stage's input."""
    emits_event_time: tuple[bool, ...]
    """For each operator, true if the rows of its outputs have the internal event-time column."""


def stages_of(
    graph: JobGraph,
    subtasks: Callable[[OperatorNode], tuple[int, int]],
    *,
    starting: Container[str] = (),
) -> list[Stage]:
    """The stages of a graph, upstream stages first.

    `subtasks` returns the parallelism and the max parallelism of an operator. Only the operators
    with these uids, whose first batch it is, read their initial state.
    """
    groups: dict[tuple[int, int, int], list[OperatorNode]] = {}
    for node in graph.operators:
        groups.setdefault((graph.depths[id(node)], *subtasks(node)), []).append(node)
    return [_stage_of(groups[key], graph.event_times, starting) for key in sorted(groups)]


def _stage_of(
    operators: Sequence[OperatorNode], event_times: EventTimes, starting: Container[str]
) -> Stage:
    places: dict[tuple[int, KeySelector | None, bool], int] = {}
    readers: list[list[tuple[OperatorNode, int]]] = []
    reads = []
    for node in operators:
        read = []
        for number, each in enumerate(node.inputs):
            if each.is_initial and node.uid not in starting:
                continue
            identity = (id(each.upstream), each.keys, each.is_broadcast)
            place = places.setdefault(identity, len(places))
            if place == len(readers):
                readers.append([])
            readers[place].append((node, number))
            read.append((each, place))
        reads.append(tuple(read))
    return Stage(
        operators=tuple(operators),
        inputs=tuple(_input_of(each, event_times) for each in readers),
        reads=tuple(reads),
        emits_event_time=tuple(map(event_times.in_rows_of, operators)),
    )


def _input_of(readers: list[tuple[OperatorNode, int]], event_times: EventTimes) -> StageInput:
    node, number = readers[0]
    first = node.inputs[number]
    keys = () if first.keys is None else first.keys.columns
    hashed = dict.fromkeys(
        name
        for node, number in readers
        for name in (
            *node.inputs[number].value_columns,
            *node.order_columns(number),
            *node.window_columns,
        )
        if name not in keys
    )
    if first.upstream.columns.has_internal_time and any(
        event_times.read_by(node) for node, _ in readers
    ):
        hashed[EVENT_TIME_COLUMN] = None
    return StageInput(
        upstream=first.upstream,
        keys=first.keys,
        is_broadcast=first.is_broadcast,
        columns=(*keys, *hashed),
        hashed=tuple(hashed),
        is_ordered=any(node.order_columns(number) for node, number in readers),
    )
