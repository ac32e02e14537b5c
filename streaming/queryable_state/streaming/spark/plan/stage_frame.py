"""Rows of a stage in Spark: the columns of its inputs, and one shuffle of them by subtask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from queryable_state.streaming.graph.elements import free_name
from queryable_state.streaming.runtime.columns.row_check import GROUP_BITS
from queryable_state.streaming.runtime.columns.tagged_rows import TaggedRows, slot_name
from queryable_state.streaming.runtime.states.input_spec import InputSpec
from queryable_state.streaming.spark.plan.columns import column, tagged_union
from queryable_state.streaming.spark.types import is_hashable
from queryable_state.wire.schema.types import Field, Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

    from queryable_state.streaming.graph.nodes import OperatorNode, StreamNode
    from queryable_state.streaming.graph.stages import Stage, StageInput


class StageRows:
    """The rows that a stage reads: their columns, row checks and layout."""

    def __init__(self, stage: Stage, *, parallelism: int, max_parallelism: int) -> None:
        self._stage = stage
        self._parallelism = parallelism
        self._max_parallelism = max_parallelism
        self._inputs = [
            _Input(each, number, parallelism=parallelism, max_parallelism=max_parallelism)
            for number, each in enumerate(stage.inputs)
        ]
        self.layout: TaggedRows | None = None
        """None: the stage has one input, whose rows are not tagged."""
        if len(self._inputs) > 1:
            self.layout = TaggedRows.of([each.fields for each in self._inputs])

    def inputs_of(self, node: OperatorNode) -> tuple[InputSpec, ...]:
        """The inputs of an operator, as its tasks read them."""
        reads = self._stage.reads[self._stage.operators.index(node)]
        return tuple(
            InputSpec(
                key_columns=() if each.keys is None else each.keys.columns,
                is_broadcast=each.is_broadcast,
                is_initial=each.is_initial,
                value_columns=each.value_columns,
                value_type=each.value_type,
                check_column=self._inputs[place].check,
                order=each.order,
                split_column=self._inputs[place].split,
                event_time=self._inputs[place].event_time,
                place=place,
            )
            for each, place in reads
        )

    def shuffled(self, frame_of: Callable[[StreamNode, bool], DataFrame]) -> DataFrame:
        """The rows of all inputs, each in the partition of its subtask.

        `frame_of` returns the DataFrame of an upstream node; its second argument is True if
        operations that renumber partitions follow.
        """
        if self.layout is None:
            (only,) = self._inputs
            upstream = frame_of(only.upstream, only.is_broadcast)
            rows, check = only.prepared(upstream).select(*only.columns), only.check
        else:
            rows, check = self._tagged(self.layout, frame_of), slot_name(0)
        group = f"(`{check}` & {GROUP_BITS})"
        return rows.repartitionById(
            self._parallelism,
            F.expr(f"cast({group} * {self._parallelism} div {self._max_parallelism} as int)"),
        )

    def _tagged(
        self, layout: TaggedRows, frame_of: Callable[[StreamNode, bool], DataFrame]
    ) -> DataFrame:
        """The rows of all inputs. Each upstream is read once, except for broadcast inputs."""
        groups: dict[tuple[int, int], list[_Input]] = {}
        for each in self._inputs:
            alone = each.number if each.is_broadcast else -1
            groups.setdefault((id(each.upstream), alone), []).append(each)
        parts = []
        for members in groups.values():
            frame = frame_of(members[0].upstream, len(groups) > 1 or members[0].is_broadcast)
            for member in members:
                frame = member.prepared(frame)
            parts.append((frame, [(member.number, member.columns) for member in members]))
        return tagged_union(parts, layout)


class _Input:
    """One input of a stage in Spark's terms.

    The names of added columns contain the input's number, because inputs with one upstream are
    prepared on one DataFrame.
    """

    def __init__(
        self, stage_input: StageInput, number: int, *, parallelism: int, max_parallelism: int
    ) -> None:
        self.number = number
        self.upstream = stage_input.upstream
        self.is_broadcast = stage_input.is_broadcast
        taken = (*stage_input.columns, *self.upstream.columns.names)
        self.check = free_name("__check", stage_input.columns)
        self.split = free_name("__split", stage_input.columns) if stage_input.is_ordered else ""
        self._made_split = free_name("__split", taken)
        self._made_subtask = free_name("__subtask", taken)
        times = self.upstream.columns.timestamps
        self.event_time = times if times in stage_input.columns else ""
        self._stage_input = stage_input
        self._parallelism = parallelism
        self._max_parallelism = max_parallelism

    @property
    def fields(self) -> list[Field]:
        """The columns of the input's rows. The check is the first, so that it has the first slot
        in every layout."""
        keys = self._stage_input.keys
        types = {} if keys is None else {field.name: field.type for field in keys.fields}
        found = [Field(self.check, TypeInfo(Kind.LONG))]
        for name in self._stage_input.columns:
            info = types.get(name) or self.upstream.columns.type_of_stored(name, "a stage")
            found.append(Field(name, info))
        if self.split:
            found.append(Field(self.split, TypeInfo(Kind.INT)))
        return found

    @property
    def columns(self) -> list[Column]:
        """The expressions of `fields` on the prepared DataFrame."""
        return [
            self._row_check().alias(self.check),
            *(column(name) for name in self._stage_input.columns),
            *([column(self._made_split).alias(self.split)] if self.split else []),
        ]

    def prepared(self, frame: DataFrame) -> DataFrame:
        """The upstream's rows with what `columns` needs added."""
        if self.is_broadcast:
            # One partition: all subtasks receive the elements in the same order.
            frame = frame.coalesce(1).withColumn(
                self._made_subtask, F.explode(F.sequence(F.lit(0), F.lit(self._parallelism - 1)))
            )
        if self.split and self._made_split not in frame.columns:
            frame = frame.withColumn(self._made_split, F.spark_partition_id())
        return frame

    def _row_check(self) -> Column:
        """The row check: key group, and hash of the input's columns except those with maps.

        The key, often the longest column, is hashed once for both. A broadcast row has the first
        key group of the subtask that receives it.
        """
        keys, columns = self._stage_input.keys, self.upstream.columns
        hashable = [
            column(name)
            for name in self._stage_input.hashed
            if is_hashable(columns.type_of_stored(name, "a stage"))
        ]
        most = F.lit(self._max_parallelism)
        if keys is None:
            row_hash = F.xxhash64(F.lit(0), *hashable)
            group = F.pmod(row_hash, most)
            if self.is_broadcast:
                subtask = column(self._made_subtask)
                group = F.ceil(subtask * most / F.lit(self._parallelism))
        else:
            key_hash = F.xxhash64(*map(column, keys.columns))
            row_hash = F.xxhash64(key_hash, *hashable)
            group = F.pmod(key_hash, most)
        return row_hash.bitwiseAND(F.lit(~GROUP_BITS)).bitwiseOR(group)
