"""Authenticated callers."""

from __future__ import annotations

import math
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from queryable_state.server.security.access.grants import EVERYTHING, Kind

if TYPE_CHECKING:
    from queryable_state.server.security.access.grants import Grants, StateName
    from queryable_state.server.security.admission.admission import Quota


@dataclass(frozen=True, slots=True, eq=False)
class StateRights:
    """What one caller may do with one state."""

    name: StateName
    kinds: Kind
    may_read: bool
    """Whether `kinds` has READ; a flag of an enum is slow to test."""
    quota: Quota | None
    """None: no limit applies."""
    until_s: float
    """Unix time after which the rights are looked up again."""


@dataclass(frozen=True, slots=True, eq=False)
class Caller:
    """One caller, as authenticated with one version of the access rules."""

    name: str
    """Name of its token, or the subject of its JWT."""

    grants: Grants

    expires_s: float = math.inf
    """Unix time at which its token expires."""

    generation: int = 0
    """Version of the access rules."""

    is_internal: bool = False
    """True for a part of the application: all is allowed, and no limit applies."""

    rights: dict[int, StateRights] = field(default_factory=dict)
    """Rights that were looked up, by id of the state."""


INTERNAL = Caller("a part of the application", EVERYTHING, is_internal=True)
"""The caller of signed calls between the parts of the application."""

caller_of_call: ContextVar[Caller] = ContextVar("caller_of_call")
"""The authenticated caller of the gRPC call that the current task answers."""
