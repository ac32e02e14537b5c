"""Handle of a declared sink: its name, and options of Flink that have no effect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from queryable_state.server.settings.environment_settings import check_given_parallelism
from queryable_state.streaming.graph.job_graph import check_name
from queryable_state.streaming.streams.stream_options import log_without_effect

if TYPE_CHECKING:
    from queryable_state.streaming.execution.slot_sharing_group import SlotSharingGroup
    from queryable_state.streaming.graph.nodes import SinkNode


class DataStreamSink:
    """A declared sink; each method returns it."""

    def __init__(self, node: SinkNode) -> None:
        self._node = node

    def name(self, name: str) -> Self:
        """Sets the name of the sink for logs, errors and plans."""
        self._node.name = check_name("the name of a sink", name)
        return self

    def uid(self, uid: str) -> Self:
        """Has no effect but its check: a sink has no state."""
        check_name("a uid", uid)
        return self

    def set_uid_hash(self, uid_hash: str) -> Self:
        """Has no effect: a sink has no state."""
        log_without_effect("set_uid_hash of a sink", "a sink has no state to identify")
        return self

    def set_parallelism(self, parallelism: int) -> Self:
        """Has no effect but in the execution plan: the driver calls a sink once per batch."""
        check_given_parallelism(parallelism)
        self._node.parallelism = parallelism
        log_without_effect(
            "set_parallelism of a sink",
            "the driver calls it once per batch, with a DataFrame that it can repartition. The "
            "plan shows the value",
        )
        return self

    def set_description(self, description: str) -> Self:
        """Sets the text that the execution plan shows as the sink's contents."""
        self._node.description = check_name("a description", description)
        return self

    def disable_chaining(self) -> Self:
        """Has no effect: a sink is in no chain."""
        log_without_effect("disable_chaining of a sink", "a sink is in no chain")
        return self

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> Self:
        """Has no effect: Spark schedules the tasks."""
        log_without_effect("slot_sharing_group", "Spark schedules tasks on its executors")
        return self
