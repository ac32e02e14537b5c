"""Configuration of an environment as a whole: set by keys, and printed with its origins."""

from __future__ import annotations

import copy
import dataclasses
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from queryable_state.server.config.effective import (
    CODE,
    EffectiveSetting,
    as_text,
    effective_settings,
)
from queryable_state.server.config.setting import Origin
from queryable_state.server.settings.environment_settings import EnvironmentSettings
from queryable_state.streaming.config.checkpoint_config import CheckpointConfig
from queryable_state.streaming.config.job_configuration import configured_backend
from queryable_state.streaming.config.restart_strategy import configured_strategy
from queryable_state.streaming.execution.execution_config import ExecutionConfig

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from queryable_state.streaming.config.state_backends import StateBackend
    from queryable_state.streaming.execution.configuration import Configuration


class ConfiguredOptions(ABC):
    """The settings of an environment, and the options that its methods have set."""

    def __init__(self, settings: EnvironmentSettings) -> None:
        self._settings = settings
        self._config = ExecutionConfig(settings)
        self._checkpoints = CheckpointConfig.of(settings)
        self._backend: StateBackend | None = None

    @property
    def settings(self) -> EnvironmentSettings:
        """The current settings."""
        return dataclasses.replace(
            self._settings,
            parallelism=max(self._config.get_parallelism(), 0),
            max_parallelism=self._config.get_max_parallelism(),
        )

    def configure(self, configuration: Configuration) -> None:
        """Sets all options of a configuration, by Flink's keys or the names of settings.

        Options that the configuration does not have keep their values. Raises InvalidRequestError
        for an unknown key, or if a setting of running state servers would change.
        """
        given = configuration.to_dict().items()
        parsed = EnvironmentSettings.parser().parse(
            {key: (value, Origin("Configuration", key)) for key, value in given}
        )
        values = parsed.values
        settings = dataclasses.replace(
            self.settings,
            **values,
            flink_options={**self._settings.flink_options, **parsed.options},
            origins={**self._settings.origins, **parsed.origins},
        )
        before = self.settings
        self._check_changes(
            [name for name in values if getattr(settings, name) != getattr(before, name)]
        )
        strategy = configured_strategy(settings) if "restart_strategy" in values else None
        backend = configured_backend(settings) if "backend" in values else self._backend
        copy.copy(self._checkpoints).configure(settings, values.keys())
        self._add_files(parsed.options)
        # Nothing below is refused, so a refused configuration leaves the options unchanged.
        self._settings, self._backend = settings, backend
        self._checkpoints.configure(settings, values.keys())
        if strategy is not None:
            self._config.set_restart_strategy(strategy)
        self._config.set_parallelism(ExecutionConfig.PARALLELISM_DEFAULT)
        self._config.set_max_parallelism(settings.max_parallelism)
        self._config.set_parallelism(settings.parallelism or ExecutionConfig.PARALLELISM_DEFAULT)
        self._config.configure(parsed.options)

    def effective_configuration(self) -> list[EffectiveSetting]:
        """All settings with their values and origins; what a method has set comes from `code`.

        Secrets are masked.
        """
        set_by_methods = self._set_by_methods()
        return [
            dataclasses.replace(row, value=set_by_methods[row.name], place=CODE, key="")
            if row.name in set_by_methods and row.value != set_by_methods[row.name]
            else row
            for row in effective_settings(self._settings)
        ]

    def print_effective_configuration(self, *, with_defaults: bool = False) -> None:
        """Prints the settings, and where each value came from, without secrets.

        Settings that have their default are printed only `with_defaults`.
        """
        rows = self.effective_configuration()
        shown = [row for row in rows if with_defaults or not row.is_default]
        print(as_text(shown), end="")  # noqa: T201 - it is asked for

    def _set_by_methods(self) -> dict[str, Any]:
        """Values of settings that methods may have changed, by name."""
        checkpoints = self._checkpoints
        values: dict[str, Any] = {
            "parallelism": max(self._config.get_parallelism(), 0),
            "max_parallelism": self._config.get_max_parallelism(),
            "checkpoint_interval_ms": max(checkpoints.get_checkpoint_interval(), 0),
            "checkpointing_mode": checkpoints.get_checkpointing_mode().name,
            "checkpoint_timeout_ms": checkpoints.get_checkpoint_timeout(),
            "min_pause_ms": checkpoints.get_min_pause_between_checkpoints(),
        }
        if self._backend is not None and self._settings.origin("backend") is None:
            values["backend"] = type(self._backend).__name__
        return values

    @abstractmethod
    def _check_changes(self, fields: Collection[str]) -> None:
        """Raises InvalidRequestError if a setting of running state servers would change."""

    @abstractmethod
    def _add_files(self, options: Mapping[str, Any]) -> None:
        """Adds the files, archives and jars that options name."""
