"""The process in which clients work: the one that opened the first, not those it has forked."""

from __future__ import annotations

import os

from queryable_state.client._errors import ClientUnusableError

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


def forked() -> ClientUnusableError:
    """Returns the error of a client in a process that was forked after one was opened."""
    return ClientUnusableError(
        f"this process was forked from pid {_first_opened_in} after a client was opened there, and "
        "neither its connections nor gRPC work in the child: open the client after the fork only "
        "(gunicorn: post_fork; Celery: worker_process_init; multiprocessing: initializer), or "
        'start processes by spawn; see docs/clients.md, "Processes that fork"'
    )
