"""Settings of a state server's log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from queryable_state.server.config.setting import GIB, KIB, MIB, setting
from queryable_state.server.config.settings_group import SettingsGroup

LOG_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")


@dataclass(frozen=True, kw_only=True)
class LogLevel(SettingsGroup):
    """Level of the log of a process."""

    log_level: str = setting("INFO", choices=LOG_LEVELS)
    """Lowest level of the lines that a process logs."""


@dataclass(frozen=True, kw_only=True)
class LogSettings(LogLevel):
    """Level, folder and size of the log of a state server."""

    log_dir: str = ""
    """Folder on each executor for state server logs, which stay there; empty: the server's own
    folder, which is deleted on an orderly shutdown. The driver logs the path of each file."""

    log_file_bytes: int = setting(16 * MIB, least=KIB, most=64 * GIB)
    """Size at which a log file of a state server is rotated."""

    log_files: int = setting(4, least=1, most=1_000)
    """Rotated log files to keep beside the current one."""
