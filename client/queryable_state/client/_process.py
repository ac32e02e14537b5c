"""The process in which clients work: the one that opened the first, not those it has forked."""

from __future__ import annotations

import os

from queryable_state.client._errors import forked

_first_opened_in: int | None = None


def check_process() -> None:
    """Raises `ClientUnusableError` in a process that was forked after a client was opened.

    gRPC's threads are not in the child, so calls there would never end.
    """
    global _first_opened_in
    if _first_opened_in is None:
        _first_opened_in = os.getpid()
    elif _first_opened_in != os.getpid():
        raise forked()
