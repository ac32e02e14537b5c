"""Options of an environment: parallelism, checkpoints, state backend, execution options.

The methods that PyFlink has on its `StreamExecutionEnvironment`, with PyFlink's names and defaults.
"""

from __future__ import annotations

import dataclasses
import os
from abc import abstractmethod
from typing import TYPE_CHECKING, Self

from queryable_state.server.settings.environment_settings import (
    EnvironmentSettings,
    check_given_parallelism,
)
from queryable_state.server.settings.flink_options import warn_without_effect
from queryable_state.streaming.config.job_configuration import configured_backend
from queryable_state.streaming.config.state_backends import StateBackend
from queryable_state.streaming.execution.configured_options import ConfiguredOptions
from queryable_state.streaming.execution.execution_modes import (
    RuntimeExecutionMode,
    TimeCharacteristic,
)
from queryable_state.streaming.execution.slot_sharing_group import SlotSharingGroup
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from queryable_state.server.settings.durability_settings import CheckpointingMode
    from queryable_state.streaming.config.checkpoint_config import CheckpointConfig
    from queryable_state.streaming.config.restart_strategy import RestartStrategyConfiguration
    from queryable_state.streaming.execution.execution_config import ExecutionConfig

_CHANGELOG = "each batch writes a changelog, with every state backend"


class EnvironmentOptions(ConfiguredOptions):
    """Options of the jobs that an environment starts later. Used from one thread."""

    def __init__(self, settings: EnvironmentSettings) -> None:
        super().__init__(settings)
        self._changelog_backend: bool | None = None
        self._warned: set[str] = set()

    def get_config(self) -> ExecutionConfig:
        """The execution configuration; changes apply to jobs started later."""
        return self._config

    def set_parallelism(self, parallelism: int) -> Self:
        """Sets the subtasks per stateful operator; see `ExecutionConfig.set_parallelism`."""
        self._config.set_parallelism(parallelism)
        return self

    def get_parallelism(self) -> int:
        """The subtasks per stateful operator; by default `spark.sql.shuffle.partitions` if it
        is set, else the cores of the Spark application; at most the max parallelism."""
        given = self._config.get_parallelism()
        most = self._config.get_max_parallelism()
        return given if given > 0 else self._default_parallelism(most)

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Sets the key groups per state; fixed for a state's lifetime."""
        self._config.set_max_parallelism(max_parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """The key groups per state."""
        return self._config.get_max_parallelism()

    def get_default_local_parallelism(self) -> int:
        """The value that was set, else the number of CPUs."""
        return self._config.option("set_default_local_parallelism") or os.cpu_count() or 1

    def set_default_local_parallelism(self, parallelism: int) -> None:
        """Keeps the default parallelism of local environments."""
        check_given_parallelism(parallelism)
        self._config.configure({"set_default_local_parallelism": parallelism})

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> Self:
        """Sets whether a job ends when it has processed the available input (BATCH).

        A `trigger` of `execute` takes precedence.
        """
        mode = RuntimeExecutionMode(execution_mode)
        self._config.configure({"execution.runtime-mode": mode.name})
        return self

    def register_slot_sharing_group(self, slot_sharing_group: SlotSharingGroup) -> Self:
        """Has no effect: Spark assigns tasks to executors."""
        if not isinstance(slot_sharing_group, SlotSharingGroup):
            raise InvalidRequestError(
                "register_slot_sharing_group takes a SlotSharingGroup, not "
                f"{slot_sharing_group!r}: build one with SlotSharingGroup.builder(name)"
            )
        warn_without_effect(
            "register_slot_sharing_group",
            "Spark assigns tasks to executors; use spark.executor.* or resource profiles",
            self._warned,
        )
        return self

    def set_buffer_timeout(self, timeout_millis: int) -> Self:
        """Keeps the milliseconds between two flushes of network buffers; -1: only full ones."""
        if timeout_millis < -1:
            raise InvalidRequestError(f"a buffer timeout must be at least -1, not {timeout_millis}")
        self._config.configure({"execution.buffer-timeout": timeout_millis})
        return self

    def get_buffer_timeout(self) -> int:
        """The value that was set."""
        return int(self._config.option("execution.buffer-timeout"))

    def disable_operator_chaining(self) -> Self:
        """Keeps that operators are not chained."""
        self._config.configure({"pipeline.operator-chaining": False})
        return self

    def is_chaining_enabled(self) -> bool:
        """The value that was set."""
        return bool(self._config.option("pipeline.operator-chaining"))

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        """The value that was set."""
        return bool(
            self._config.option(
                "pipeline.operator-chaining.chain-operators-with-different-max-parallelism"
            )
        )

    def set_stream_time_characteristic(self, characteristic: TimeCharacteristic) -> None:
        """Sets the clock of `time_window`: that of the batches for ProcessingTime, else event time.

        Nothing else depends on it: elements have event time if they have timestamps.
        """
        kept = TimeCharacteristic(characteristic)
        self._config.configure({"pipeline.time-characteristic": kept.name})

    def get_stream_time_characteristic(self) -> TimeCharacteristic:
        """The value that was set."""
        return TimeCharacteristic[self._config.option("pipeline.time-characteristic")]

    def enable_checkpointing(self, interval: int, mode: CheckpointingMode | None = None) -> Self:
        """Takes a checkpoint every `interval` milliseconds; without `mode`, the mode is unchanged.

        State with a durable location survives without checkpoints too: every batch is durable when
        it commits. With checkpointing a failed job is restarted (`set_restart_strategy`), and a job
        without a durable location keeps its checkpoints in the driver's memory.
        """
        self._checkpoints.set_checkpoint_interval(interval)
        if mode is not None:
            self._checkpoints.set_checkpointing_mode(mode)
        return self

    def get_checkpoint_config(self) -> CheckpointConfig:
        """The checkpoint configuration; changes apply to jobs started later."""
        return self._checkpoints

    def get_checkpoint_interval(self) -> int:
        """The milliseconds between two checkpoints; -1: checkpointing is not enabled."""
        return self._checkpoints.get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """The checkpointing mode."""
        return self._checkpoints.get_checkpointing_mode()

    def get_checkpointing_consistency_mode(self) -> CheckpointingMode:
        """Same as `get_checkpointing_mode`."""
        return self._checkpoints.get_checkpointing_mode()

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """The value that was set in the checkpoint configuration."""
        return self._checkpoints.is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        """The value that was set in the checkpoint configuration."""
        return self._checkpoints.is_force_unaligned_checkpoints()

    def set_state_backend(self, state_backend: StateBackend | str) -> Self:
        """Sets the state backend: a StateBackend, or a value of `state.backend`."""
        if not isinstance(state_backend, StateBackend):
            named = dataclasses.replace(self._settings, backend=state_backend)
            state_backend = configured_backend(named)
        self._backend = state_backend
        return self

    def get_state_backend(self) -> StateBackend | None:
        """The state backend that was set, else the configured one; None: the default, which is a
        HashMapStateBackend."""
        if self._backend is not None or self._settings.backend == EnvironmentSettings.backend:
            return self._backend
        return configured_backend(self._settings)

    def enable_changelog_state_backend(self, enabled: bool) -> Self:
        """Keeps whether changes are written continuously; they always are."""
        if not enabled:
            warn_without_effect("enable_changelog_state_backend(False)", _CHANGELOG, self._warned)
        self._changelog_backend = bool(enabled)
        return self

    def is_changelog_state_backend_enabled(self) -> bool | None:
        """The value that was set; None: not set."""
        return self._changelog_backend

    def set_default_savepoint_directory(self, directory: str) -> Self:
        """Sets the directory of savepoints for which none is named."""
        if not directory:
            raise InvalidRequestError("the savepoint directory is empty: set a path or a URI")
        self._settings = dataclasses.replace(self._settings, savepoint_directory=directory)
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """The directory that was set, or `state.savepoints.dir`; None: neither is set."""
        return self._settings.savepoint_directory or None

    def set_restart_strategy(
        self, restart_strategy_configuration: RestartStrategyConfiguration
    ) -> Self:
        """Sets the restart strategy; see `RestartStrategies`."""
        self._config.set_restart_strategy(restart_strategy_configuration)
        return self

    def get_restart_strategy(self) -> RestartStrategyConfiguration:
        """The restart strategy that was set, else the fallback strategy."""
        return self._config.get_restart_strategy()

    def add_default_kryo_serializer(self, type_class_name: str, serializer_class_name: str) -> None:
        """Keeps the default Kryo serializer of a class."""
        self._config.add_default_kryo_serializer(type_class_name, serializer_class_name)

    def register_type_with_kryo_serializer(
        self, type_class_name: str, serializer_class_name: str
    ) -> None:
        """Keeps the Kryo serializer of a class."""
        self._config.register_type_with_kryo_serializer(type_class_name, serializer_class_name)

    def register_type(self, type_class_name: str) -> None:
        """Keeps a class for the POJO serializer."""
        self._config.register_pojo_type(type_class_name)

    @abstractmethod
    def _default_parallelism(self, most: int) -> int:
        """The parallelism if none is set, at most `most`."""
