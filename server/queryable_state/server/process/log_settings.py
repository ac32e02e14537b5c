"""Settings of a process's log."""

from __future__ import annotations

from dataclasses import dataclass

from queryable_state.wire.errors import InvalidRequestError

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


@dataclass(frozen=True, kw_only=True)
class LogSettings:
    """Level, folder and size of a process's log."""

    level: str = "INFO"
    """Lowest level that is written: DEBUG, INFO, WARNING or ERROR."""

    directory: str = ""
    """Folder for the files, which stay after the process ends; empty: the process's folder."""

    file_bytes: int = 16 * 1024 * 1024
    """Size at which a log file is rotated."""

    files: int = 4
    """Rotated files that are kept beside the current one."""

    def __post_init__(self) -> None:
        if self.level not in LOG_LEVELS:
            raise InvalidRequestError(
                f"spark.queryable_state.log_level is {self.level!r}: choose one of "
                f"{', '.join(LOG_LEVELS)}"
            )
