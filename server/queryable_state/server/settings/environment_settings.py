"""Settings of an environment, read from Spark's configuration, process environment and a file."""

from __future__ import annotations

import dataclasses
import os
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from queryable_state.server.config.limits import Limits
from queryable_state.server.config.parser import SettingsParser
from queryable_state.server.config.setting import name_of, setting, settings_of
from queryable_state.server.config.sources import CONF_PREFIX, FILE_NAME, conf_sources
from queryable_state.server.security.access.access_settings import AccessSettings
from queryable_state.server.security.tls_settings import TlsSettings
from queryable_state.server.serving.listen_settings import ListenSettings
from queryable_state.server.settings.checkpoint_server_settings import CheckpointServerSettings
from queryable_state.server.settings.durability_settings import DurabilitySettings
from queryable_state.server.settings.proxy_settings import ProxySettings
from queryable_state.server.settings.shared_settings import (
    BatchSettings,
    LogSettings,
    ServingSettings,
    TaskSettings,
    WebSettings,
)
from queryable_state.wire.errors import InvalidRequestError, Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAX_PARALLELISM_LIMIT: Final = 32767

_NO_KEY_GROUP: Final = (
    "parallelism exceeds max_parallelism, so a subtask would own no key group; lower parallelism, "
    "or raise max_parallelism, which is fixed once a state exists"
)


@dataclass(frozen=True, kw_only=True)
class EnvironmentSettings(
    DurabilitySettings,
    ListenSettings,
    BatchSettings,
    TaskSettings,
    ServingSettings,
    WebSettings,
    TlsSettings,
    LogSettings,
    Limits,
    AccessSettings,
):
    """Settings of one Spark application, and defaults for its jobs.

    Each field can be set as `spark.queryable_state.<field>` in Spark's configuration, as
    `QUERYABLE_STATE_<FIELD>` in the driver's environment, or in the TOML file that
    `spark.queryable_state.config` or `QUERYABLE_STATE_CONFIG` names, in this order of precedence. A
    setting that Flink has (`state.checkpoints.dir`) can be set by Flink's keys too; in Spark's
    configuration they need no prefix. Times and sizes may have units.
    """

    parallelism: int = setting(
        0, least=0, most=MAX_PARALLELISM_LIMIT, flink=("parallelism.default",)
    )
    """Subtasks of a stateful operator, at most `max_parallelism`; 0:
    `spark.sql.shuffle.partitions` if it is set, else the cores of the application."""

    max_parallelism: int = setting(
        128, least=1, most=MAX_PARALLELISM_LIMIT, flink=("pipeline.max-parallelism",)
    )
    """Key groups of a state; fixed for its lifetime."""

    queryable_state_enable: bool = setting(True, flink=("queryable-state.enable",))
    """Must be true: state servers always answer queries."""

    secret: str = setting("", secret=True)
    """Secret that signs every call between the parts of the application; empty: a random one.
    Executors can read Spark's configuration: set it in the environment or the file instead."""

    directory: str = ""
    """Folder on each executor for live stores and logs; empty: a folder in Spark's local
    directories, else in the temporary directory."""

    flink_options: Mapping[str, Any] = setting(default_factory=dict, derived=True)
    """Flink's execution options that are set, by key; see `ExecutionConfig`."""

    key_prefix: ClassVar[str] = CONF_PREFIX

    def check_relations(self) -> None:
        super().check_relations()
        if not self.queryable_state_enable:
            raise InvalidRequestError(
                "queryable-state.enable is false, but state servers always answer queries: remove "
                "the key. A state without a queryable name is not visible to clients",
                reason=Reason.UNSUPPORTED,
            )
        self.require(
            self.task_timeout_s * 1000 > self.lease_ms + self.lease_margin_ms,
            ("task_timeout_s", "lease_ms", "lease_margin_ms"),
            "a task must wait longer than lease and margin together, or it fails before the "
            "subtasks of a lost server have a new owner; raise the timeout or lower the lease",
        )
        self.require(
            self.parallelism <= self.max_parallelism,
            ("parallelism", "max_parallelism"),
            _NO_KEY_GROUP,
        )

    @classmethod
    def load(
        cls, conf: Mapping[str, str], environment: Mapping[str, str] = os.environ
    ) -> EnvironmentSettings:
        """Reads the settings from a Spark configuration, an environment and the file they name.

        From the weakest to the strongest: the file, the environment, Spark's configuration; in it,
        keys with the prefix `spark.queryable_state.` count before Flink's without a prefix. Raises
        InvalidRequestError with key and place of an unknown, misspelt or invalid setting.
        """
        parser = cls.parser()
        found = parser.load(environment, conf_sources(conf, parser.claims))
        return cls(**found.values, flink_options=found.options, origins=found.origins)

    @classmethod
    def parser(cls) -> SettingsParser:
        """A parser of the settings of an application."""
        return SettingsParser(cls, {*_process_names(), FILE_NAME}, is_application=True)

    def with_secret(self) -> EnvironmentSettings:
        """These settings, with a random secret if none is set."""
        if self.secret:
            return self
        return dataclasses.replace(self, secret=secrets.token_urlsafe(32))


def known_names() -> set[str]:
    """The names of the settings of all processes, Flink's keys among them."""
    return {*EnvironmentSettings.parser().known, *_process_names()}


def _process_names() -> set[str]:
    """Names of the settings of stand-alone processes."""
    processes = (ProxySettings, CheckpointServerSettings)
    return {name_of(field) for process in processes for field in settings_of(process)}


def check_given_parallelism(parallelism: int) -> None:
    """Raises InvalidRequestError for a parallelism below 1."""
    if parallelism < 1:
        raise InvalidRequestError(f"parallelism must be at least 1, not {parallelism}")


def check_parallelism(parallelism: int, max_parallelism: int) -> None:
    """Raises InvalidRequestError unless 1 <= `max_parallelism` <= 32767 and 0 (not set) <=
    `parallelism` <= `max_parallelism`."""
    if not 1 <= max_parallelism <= MAX_PARALLELISM_LIMIT:
        raise InvalidRequestError(
            f"max_parallelism must be 1 to {MAX_PARALLELISM_LIMIT}, not {max_parallelism}"
        )
    if parallelism < 0:
        raise InvalidRequestError(f"parallelism must be at least 1, not {parallelism}")
    if parallelism > max_parallelism:
        raise InvalidRequestError(f"{parallelism} and {max_parallelism}: {_NO_KEY_GROUP}")


def joined(names: Iterable[str]) -> str:
    """The names as `a, b, c`, or `none`."""
    return ", ".join(names) or "none"
