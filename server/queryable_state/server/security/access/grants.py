"""Grants: which callers may do what with which states."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Iterable


class Kind(enum.Flag):
    """Kinds of operations on a state."""

    NONE = 0
    READ = enum.auto()
    """Look-ups by key: values, elements, windows, timers, operator state, `explain`."""
    SCAN = enum.auto()
    """Scans, the size and the hot keys of the state."""
    LIST = enum.auto()
    """Seeing that the state exists, and its types. Every other kind includes it."""
    ADMIN = enum.auto()
    """The size of the state, and operating the job where a server offers it."""


KINDS = {kind.name.lower(): kind for kind in Kind if kind.name}
"""The kinds by the names that the access file uses."""

ANONYMOUS = "anonymous"
"""Name of callers without a token, if the access file admits them."""


class NamePattern:
    """Patterns of names, in which `*` stands for any text; one must match the whole name."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns = tuple(patterns)
        alternatives = (re.escape(each).replace(r"\*", ".*") for each in self.patterns)
        self._regex = re.compile("|".join(f"(?:{each})" for each in alternatives), re.DOTALL)
        self.matches_all = "*" in self.patterns

    def matches(self, name: str) -> bool:
        """True if a pattern matches."""
        return self.matches_all or bool(self.patterns and self._regex.fullmatch(name))

    def names(self, name: str) -> bool:
        """True if a pattern is the name itself."""
        return name in self.patterns

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamePattern) and self.patterns == other.patterns

    def __hash__(self) -> int:
        return hash(self.patterns)

    def __repr__(self) -> str:
        return f"NamePattern({self.patterns!r})"


class JobPattern(NamePattern):
    """Patterns of the names of jobs, or whole job ids.

    Ids are random: a pattern with `*` is never compared with one, or "fa*" would match every 256th
    job. The pattern "*" stands for all jobs.
    """

    def matches_job(self, name: str, job_id: str) -> bool:
        """True if a pattern matches the name, or is the id."""
        return self.matches(name) or self.names(job_id)

    def matches_asked(self, job: str) -> bool:
        """True if a pattern matches the job in a request, which is a name or an id (UUID)."""
        try:
            job_id = UUID(job.strip()).hex
        except ValueError:
            return self.matches(job)
        return self.matches_all or self.names(job_id)


@dataclass(frozen=True, slots=True)
class StateName:
    """A queryable state as grants name it."""

    job_id: str
    """32 hex digits."""

    job_name: str
    state: str
    """The queryable name."""


@dataclass(frozen=True, kw_only=True)
class Grant:
    """One entry of the access file: some callers, some states, some kinds."""

    callers: NamePattern
    roles: frozenset[str]
    """Roles in a JWT; a caller with one of them has the grant."""
    jobs: JobPattern
    states: NamePattern
    kinds: Kind

    def is_for(self, caller: str, roles: frozenset[str]) -> bool:
        """True if the caller has the grant.

        Callers without a token have only grants that name them: "*" is for authenticated callers.
        """
        if caller == ANONYMOUS:
            return self.callers.names(caller)
        return self.callers.matches(caller) or not self.roles.isdisjoint(roles)


class Grants:
    """The grants of one caller. Nothing is allowed that no grant names."""

    def __init__(self, grants: Iterable[Grant]) -> None:
        self._grants = tuple(grants)

    @property
    def any(self) -> bool:
        """True if something is allowed."""
        return bool(self._grants)

    def kinds(self, name: StateName) -> Kind:
        """The allowed kinds of operations on a state."""
        found = Kind.NONE
        for grant in self._grants:
            if grant.states.matches(name.state) and grant.jobs.matches_job(
                name.job_name, name.job_id
            ):
                found |= grant.kinds
        return found | Kind.LIST if found else found

    def lists_all_of(self, job_name: str, job_id: str) -> bool:
        """True if the caller may see every state of a job, also those that it will have."""
        return any(
            grant.states.matches_all and grant.jobs.matches_job(job_name, job_id)
            for grant in self._grants
        )

    def administers(self, job_name: str, job_id: str) -> bool:
        """True if the caller may operate a job: it has ADMIN of all of its states."""
        return any(
            Kind.ADMIN in grant.kinds
            and grant.states.matches_all
            and grant.jobs.matches_job(job_name, job_id)
            for grant in self._grants
        )

    def lists_everything(self) -> bool:
        """True if the caller may see every state of every job, also those that will be."""
        return any(grant.states.matches_all and grant.jobs.matches_all for grant in self._grants)

    def lists_unknown(self, job: str, state: str) -> bool:
        """True if the caller may be told that no such state exists.

        `job` is what the caller wrote: the name of a job, its id, or nothing. Only a grant of all
        jobs covers whatever job an id or nothing may stand for.
        """
        return any(
            grant.states.matches(state)
            and (grant.jobs.matches_all or bool(job and grant.jobs.matches_asked(job)))
            for grant in self._grants
        )


EVERYTHING = Grants(
    [
        Grant(
            callers=NamePattern(["*"]),
            roles=frozenset(),
            jobs=JobPattern(["*"]),
            states=NamePattern(["*"]),
            kinds=Kind.READ | Kind.SCAN | Kind.LIST | Kind.ADMIN,
        )
    ]
)
"""The grants of the parts of the application."""
