"""Count and log of denied calls."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

from queryable_state.server.process.rate_limited_log import RateLimitedLog
from queryable_state.server.security.access.grants import Kind
from queryable_state.wire.errors import AuthenticationError, PermissionDeniedError, shown

if TYPE_CHECKING:
    from queryable_state.server.security.access.caller import Caller, StateRights

_log = RateLimitedLog(logging.getLogger(__name__))


_VERBS = {Kind.READ: "read", Kind.SCAN: "scan", Kind.LIST: "see", Kind.ADMIN: "administer"}


class Denials:
    """Denied calls of one process: counted by cause, and logged at a bounded rate."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """Denied calls by cause."""

    def unauthenticated(self, cause: str, what: str) -> AuthenticationError:
        """Counts and logs a call without a valid token; returns the error for the caller."""
        self._count(cause, "refusing a call: %s", what)
        return AuthenticationError(what)

    def denied(self, caller: str, kind: Kind, job: str, state: str) -> PermissionDeniedError:
        """Counts and logs an operation without a grant; returns the error for the caller.

        The error is the same whether or not such a state exists: `job` and `state` are what the
        caller wrote.
        """
        where = (f"state {shown(state)!r}" if state else "states") + (
            f" of job {shown(job)!r}" if job else ""
        )
        return self._denied(caller, kind, where)

    def of_rights(self, caller: Caller, kind: Kind, rights: StateRights) -> PermissionDeniedError:
        """The denial by rights; names the state only if the caller may see it."""
        if not rights.kinds:
            return self.unnamed(caller.name)
        return self.denied(caller.name, kind, rights.name.job_name, rights.name.state)

    def unnamed(self, caller: str) -> PermissionDeniedError:
        """The denial for a state that the caller named by id; does not disclose its name."""
        return self._denied(caller, Kind.LIST, "the state with this id")

    def _denied(self, caller: str, kind: Kind, where: str) -> PermissionDeniedError:
        error = PermissionDeniedError(
            f"caller {shown(caller)!r} may not {_VERBS[kind]} {where}, or there is none: "
            f"{_ask(kind)}"
        )
        self._count(f"no grant to {_VERBS[kind]}", "denying a call: %s", error.message)
        return error

    def _count(self, cause: str, text: str, message: str) -> None:
        self.counts[cause] += 1
        _log.write(logging.WARNING, cause, text, message)


def _ask(kind: Kind) -> str:
    # Any grant includes seeing a state.
    name = "read" if kind is Kind.LIST else _VERBS[kind]
    return (
        f'ask for a grant with kinds = ["{name}"] in the access file of the servers '
        "(spark.queryable_state.access_file)"
    )
