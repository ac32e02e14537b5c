"""Registry of objects that a forked process must not use: their sockets belong to its parent."""

from __future__ import annotations

import os
import sys
from typing import Any, Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """An object with a connection."""

    def leave_to_parent(self) -> None:
        """Makes the object unusable; called in a forked process, in any order.

        Sends nothing, and calls neither gRPC nor the selector of a loop: the parent has the same.
        """


_open: WeakSet[Any] = WeakSet()
_kept: list[object] = []


def at_fork(forkable: Forkable) -> None:
    """Calls `leave_to_parent` in every process that is forked while the object exists."""
    _open.add(forkable)


def keep(*inherited: object) -> None:
    """Keeps objects for the life of a forked process: gRPC sends when its objects are deleted."""
    _kept.extend(inherited)


def abandon(descriptor: int) -> None:
    """Replaces an inherited socket by /dev/null.

    The number stays in use. The parent's loop shares its epoll object with the child, and a
    descriptor of another file cannot be taken from it.
    """
    null = os.open(os.devnull, os.O_RDWR)
    try:
        os.dup2(null, descriptor, inheritable=False)
    finally:
        os.close(null)


def _leave_all() -> None:
    # All at first: what is called drops references to others.
    inherited = tuple(_open)
    _open.clear()
    for each in inherited:
        try:
            each.leave_to_parent()
        except Exception:  # noqa: BLE001 - the others must be left too
            sys.excepthook(*sys.exc_info())
    keep(*inherited)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_all)
