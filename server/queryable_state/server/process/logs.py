"""Logging of state servers, proxies and checkpoint servers: time, level and logger a line.

Never for a driver: the user configures its logging.
"""

from __future__ import annotations

import logging
import os
import sys
from logging.handlers import RotatingFileHandler
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from queryable_state.server.settings.shared_settings import LogSettings

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class _ProcessLog(RotatingFileHandler):
    """Rotates the file and redirects stdout and stderr, on which libraries print, to it."""

    def doRollover(self) -> None:
        super().doRollover()
        for stream in (sys.__stdout__, sys.__stderr__):
            if stream is not None and self.stream is not None:
                os.dup2(self.stream.fileno(), stream.fileno())


def log_to_file(path: Path, settings: LogSettings) -> None:
    """Logs into a file of bounded size; the names of rotated files end with .1, .2, ..."""
    handler = _ProcessLog(
        path, maxBytes=settings.log_file_bytes, backupCount=settings.log_files, encoding="utf-8"
    )
    logging.basicConfig(handlers=[handler], level=settings.log_level, format=FORMAT)


def log_to_stderr(level: str) -> None:
    """Logs to stderr."""
    logging.basicConfig(level=level, format=FORMAT)
