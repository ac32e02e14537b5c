"""Log lines on stderr of a process that has not configured logging."""

from __future__ import annotations

import logging
import sys
import threading
from typing import Any, Final

from queryable_state.server.process.logs import FORMAT

_PACKAGE: Final = "queryable_state"
_lock = threading.Lock()


class _ConsoleHandler(logging.Handler):
    """Writes records to stderr with time, level and logger, until the program configures logging.

    Without a handler, Python writes the bare text of warnings. If a handler of the program gets a
    record, this one writes nothing, so no line is written twice. Levels are those of the program;
    Python's default is WARNING.
    """

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter(FORMAT))

    def filter(self, record: logging.LogRecord) -> Any:
        return False if _has_handler(record.name) else super().filter(record)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            # Read at each record: a notebook or a test replaces it.
            stream = sys.stderr
            if stream is not None:
                stream.write(self.format(record) + "\n")
                stream.flush()
        except Exception:  # noqa: BLE001 - as every handler of logging does
            self.handleError(record)


def log_to_console() -> None:
    """Shows the records of this package on stderr while the program has no handler of its own.

    Idempotent. It changes no level, not the root logger, and nothing that `logging.basicConfig` or
    `dictConfig` looks at.
    """
    ours = logging.getLogger(_PACKAGE)
    with _lock:
        if not any(isinstance(handler, _ConsoleHandler) for handler in ours.handlers):
            ours.addHandler(_ConsoleHandler())


def _has_handler(name: str) -> bool:
    """True if the program has a handler that gets the records of a logger."""
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None:
        if any(
            not isinstance(handler, _ConsoleHandler | logging.NullHandler)
            for handler in logger.handlers
        ):
            return True
        logger = logger.parent if logger.propagate else None
    return False
