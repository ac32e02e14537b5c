"""Settings of Spark tasks."""

from __future__ import annotations

from dataclasses import dataclass

from queryable_state.server.config.setting import DAY_S, setting
from queryable_state.server.config.settings_group import SettingsGroup


@dataclass(frozen=True, kw_only=True)
class TaskSettings(SettingsGroup):
    """What users set of the tasks of a job."""

    task_timeout_s: float = setting(60.0, least=0.1, most=DAY_S)
    """How long one step of a task (locate and begin, a fetch, prepare) may wait for a state
    server, including retries, before the task fails."""

    hot_keys: bool = True
    """True: tasks and state servers count the keys that rows and queries touch most often, over
    the last minute, for `hot_keys` of the client. False: they count nothing."""
