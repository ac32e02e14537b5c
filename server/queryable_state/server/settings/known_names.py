"""All names of settings, for processes that share a file or an environment."""

from __future__ import annotations

from queryable_state.server.settings.application_sources import application_parser, process_names
from queryable_state.server.settings.environment_settings import EnvironmentSettings


def known_names() -> set[str]:
    """The names of the settings of all processes, Flink's keys among them."""
    return {*application_parser(EnvironmentSettings).known, *process_names()}
