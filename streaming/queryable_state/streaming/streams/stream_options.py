"""Options of a stream's operator: names, uid, parallelism, and those of Flink without effect."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NoReturn, Self

from queryable_state.server.settings.environment_settings import check_given_parallelism
from queryable_state.streaming.graph.job_graph import check_name
from queryable_state.streaming.graph.nodes import OperatorNode, SourceNode, TransformNode
from queryable_state.streaming.graph.stream_text import stream_text
from queryable_state.streaming.sources.watermarks import without_watermark
from queryable_state.wire.errors import InvalidRequestError, Reason

if TYPE_CHECKING:
    from queryable_state.streaming.execution.execution_config import ExecutionConfig
    from queryable_state.streaming.execution.slot_sharing_group import SlotSharingGroup
    from queryable_state.streaming.graph.nodes import StreamNode
    from queryable_state.streaming.operator_handles import StreamEnvironment
    from queryable_state.wire.schema.types import TypeInfo

_log = logging.getLogger("queryable_state.streaming")
_logged: set[str] = set()


def log_without_effect(method: str, reason: str) -> None:
    """Logs, once per process, that a method of Flink has no effect."""
    if method not in _logged:
        _logged.add(method)
        _log.warning("%s has no effect: %s", method, reason)


class StreamOptions:
    """Options of the operator that makes the stream; each returns the stream."""

    _environment: StreamEnvironment
    _node: StreamNode

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {stream_text(self._node)}>"

    def get_name(self) -> str:
        """Name of the operator."""
        node = without_watermark(self._node)
        if isinstance(node, OperatorNode | TransformNode):
            return node.name
        if isinstance(node, SourceNode):
            return node.given_name or "source"
        return "side output" if not hasattr(node, "kind") else node.kind

    def name(self, name: str) -> Self:
        """Sets the name of the operator for logs and errors."""
        checked = check_name("the name of an operator", name)
        node = without_watermark(self._node)
        if not isinstance(node, OperatorNode | TransformNode | SourceNode):
            raise InvalidRequestError(
                f"name({name!r}): the stream has no operator of its own, because it only "
                f"{self.get_name()}s another one: name the operator before or after it"
            )
        node.given_name = checked
        return self

    def uid(self, uid: str) -> Self:
        """Sets the identity of the operator.

        It has an effect for stateful operators, whose state a changed program finds by it, and for
        sources, whose progress a job that starts from a savepoint finds by it.
        """
        checked = check_name("a uid", uid)
        node = without_watermark(self._node)
        if isinstance(node, OperatorNode | TransformNode | SourceNode):
            node.given_uid = checked
        return self

    def set_uid_hash(self, uid_hash: str) -> Self:
        """Has no effect: states are identified by the uid itself."""
        log_without_effect("set_uid_hash", "an operator's state is identified by its uid")
        return self

    def set_parallelism(self, parallelism: int) -> Self:
        """Sets the subtasks of a stateful operator.

        Other operators run in Spark's partitions; for them only the execution plan has the value.
        """
        check_given_parallelism(parallelism)
        if isinstance(self._node, OperatorNode):
            self._node.parallelism = parallelism
            return self
        node = without_watermark(self._node)
        if isinstance(node, TransformNode | SourceNode):
            node.parallelism = parallelism
        log_without_effect(
            "set_parallelism of an operator without state",
            "it runs in Spark's partitions of its input: call rebalance() before it. The plan "
            "shows the value",
        )
        return self

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Sets the key groups of a stateful operator; fixed for the lifetime of its state."""
        if not 1 <= max_parallelism <= 32767:
            raise InvalidRequestError(
                f"max parallelism must be between 1 and 32767, not {max_parallelism}"
            )
        if isinstance(self._node, OperatorNode):
            self._node.max_parallelism = max_parallelism
        else:
            log_without_effect("set_max_parallelism", "only stateful operators have key groups")
        return self

    def force_non_parallel(self) -> Self:
        """Sets the parallelism and the max parallelism to 1."""
        return self.set_parallelism(1).set_max_parallelism(1)

    def set_buffer_timeout(self, timeout_millis: int) -> Self:
        """Has no effect: Spark passes whole batches."""
        log_without_effect("set_buffer_timeout", "Spark passes whole batches between tasks")
        return self

    def start_new_chain(self) -> Self:
        """Has no effect: adjacent functions run in one task."""
        log_without_effect("start_new_chain", "adjacent functions always run in one task")
        return self

    def disable_chaining(self) -> Self:
        """Has no effect: adjacent functions run in one task."""
        log_without_effect("disable_chaining", "adjacent functions always run in one task")
        return self

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> Self:
        """Has no effect: Spark schedules the tasks."""
        log_without_effect("slot_sharing_group", "Spark schedules tasks on its executors")
        return self

    def set_description(self, description: str) -> Self:
        """Sets the text that the execution plan shows as the operator's contents."""
        node = without_watermark(self._node)
        if not isinstance(node, OperatorNode | TransformNode | SourceNode):
            raise InvalidRequestError(
                f"set_description({description!r}): the stream has no operator of its own, because "
                f"it only {self.get_name()}s another one: describe the operator before or after it"
            )
        node.description = check_name("a description", description)
        return self

    def get_type(self) -> TypeInfo:
        """Type of the elements."""
        columns = self._node.columns
        return columns.element_type(columns.names, "get_type")

    def cache(self) -> NoReturn:
        """Raises InvalidRequestError: each job reads its own sources."""
        raise InvalidRequestError(
            "cache() of a stream is not supported: each job reads its own sources, and Spark "
            "caches no streaming DataFrame. Declare all readers of the stream in one job, which "
            "runs each of its functions once, or write the stream with a SparkSink and read it "
            "with a SparkSource",
            reason=Reason.UNSUPPORTED,
        )

    def get_execution_config(self) -> ExecutionConfig:
        """The execution configuration of the environment."""
        return self._environment.get_config()

    def get_execution_environment(self) -> StreamEnvironment:
        """The environment of the stream."""
        return self._environment
