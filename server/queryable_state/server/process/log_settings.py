"""How much a process of ours writes into its log, and where."""

from __future__ import annotations

from dataclasses import dataclass

from queryable_state.wire.errors import InvalidRequestError

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


@dataclass(frozen=True, kw_only=True)
class LogSettings:
    """How much a process writes into its log."""

    level: str = "INFO"
    """Of the lines that are written: DEBUG, INFO, WARNING or ERROR."""

    directory: str = ""
    """Folder for the files, where they stay; empty: that of the process."""

    file_bytes: int = 16 * 1024 * 1024
    """Size at which a log file is put aside and the next one begun."""

    files: int = 4
    """Files that are kept beside the current one."""

    def __post_init__(self) -> None:
        if self.level not in LOG_LEVELS:
            raise InvalidRequestError(
                f"spark.queryable_state.log_level {self.level!r} is not known: choose one of "
                f"{', '.join(LOG_LEVELS)}"
            )
