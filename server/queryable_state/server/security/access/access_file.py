"""Access file: TOML with tokens, grants and limits (docs/security.md)."""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from queryable_state.server.security.access.access_rules import AccessRules, JwtRules
from queryable_state.server.security.access.grants import (
    ANONYMOUS,
    KINDS,
    Grant,
    JobPattern,
    Kind,
    NamePattern,
)
from queryable_state.server.security.access.tokens import is_digest
from queryable_state.server.security.admission.limit import RATES, Limit
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_BYTES = 16 * 1024 * 1024

# `none` is in no list: an unsigned JWT is never accepted.
_KNOWN_ALGORITHMS = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
    "HS256", "HS384", "HS512",
)  # fmt: skip


def read_access_file(path: str) -> AccessRules:
    """Reads a file; raises `InvalidRequestError` with the place of the first mistake."""
    try:
        data = Path(path).read_bytes()
    except OSError as problem:
        raise InvalidRequestError(
            f"cannot read the access file {path}: {problem.strerror or problem}: set "
            "spark.queryable_state.access_file to a file that each server and proxy can read"
        ) from problem
    if len(data) > _MOST_BYTES:
        raise InvalidRequestError(f"{path} has {len(data):,} bytes, {_MOST_BYTES:,} allowed")
    try:
        return parse(data.decode())
    except (ValueError, RecursionError) as problem:
        # Besides mistakes of syntax: numbers of thousands of digits, and tables nested too deep.
        raise InvalidRequestError(f"{path} is not valid TOML: {problem}") from problem
    except _MistakeError as mistake:
        raise InvalidRequestError(f"{path}: {mistake}") from mistake


def parse(text: str) -> AccessRules:
    """Parses the content of a file."""
    content = _Table(tomllib.loads(text), "")
    content.allow("tokens", "anonymous", "grants", "limits", "jwt")
    jwt = content.table("jwt")
    jwt.allow("algorithms", "roles_claim", "leeway_s")
    defaults = JwtRules()
    return AccessRules(
        tokens=_tokens(content.table("tokens")),
        anonymous=content.flag("anonymous"),
        grants=tuple(_grant(each) for each in content.tables("grants")),
        limits=tuple(_limit(each) for each in content.tables("limits")),
        jwt=JwtRules(
            algorithms=jwt.names("algorithms", _KNOWN_ALGORITHMS) or defaults.algorithms,
            roles_claim=jwt.text("roles_claim") or defaults.roles_claim,
            leeway_s=jwt.number("leeway_s", most=300) or defaults.leeway_s,
        ),
    )


class _MistakeError(Exception):
    """A mistake in the file; its text names the place."""


class _Table:
    """A table of the file, whose values are checked when they are taken."""

    def __init__(self, values: dict[str, Any], where: str) -> None:
        self.values = values
        self.where = where

    def allow(self, *known: str) -> None:
        """Raises for a key that is none of these."""
        for key in self.values:
            if key not in known:
                close = difflib.get_close_matches(key, known, 1)
                hint = f"did you mean {close[0]!r}?" if close else f"use {', '.join(known)}"
                raise self.mistake(key, f"there is no such key: {hint}")

    def mistake(self, key: str, problem: str) -> _MistakeError:
        """The error for a value of this table; names its key."""
        return _MistakeError(f"{self.where + '.' if self.where else ''}{key}: {problem}")

    def table(self, key: str) -> _Table:
        """A table; an empty one if there is none."""
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise self.mistake(key, f"write a table, [{key}]")
        return _Table(value, key)

    def tables(self, key: str) -> list[_Table]:
        """An array of tables."""
        value = self.values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            raise self.mistake(key, f"write tables, each with the header [[{key}]]")
        return [_Table(each, f"{key}[{number}]") for number, each in enumerate(value)]

    def flag(self, key: str) -> bool:
        """True or False; False if not set."""
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            raise self.mistake(key, "write true or false")
        return value

    def text(self, key: str) -> str:
        """A text; empty if not set."""
        value = self.values.get(key, "")
        if not isinstance(value, str):
            raise self.mistake(key, 'write a text in quotes, as in "roles"')
        return value

    def number(self, key: str, *, most: float) -> float | None:
        """A number above 0; None if not set."""
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
            raise self.mistake(key, f"write a number above 0, at most {most:,.0f}")
        return float(value)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts, none of them empty; empty if not set."""
        value = self.values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
            raise self.mistake(key, 'write a list of texts, as in ["flights*"]')
        return tuple(value)

    def names(self, key: str, known: Iterable[str]) -> tuple[str, ...]:
        """A list of texts, each one of `known`."""
        known = tuple(known)
        found = self.texts(key)
        for each in found:
            if each not in known:
                raise self.mistake(key, f"{each!r} is none of {', '.join(known)}")
        return found

    def required(self, *keys: str) -> None:
        """Raises if none of the keys is set to something that is not empty."""
        if not any(self.values.get(key) for key in keys):
            raise self.mistake(keys[0], f"set {' or '.join(keys)}, as a list of texts")


def _tokens(table: _Table) -> dict[str, str]:
    names: dict[str, str] = {}
    for name, value in table.values.items():
        digests = [value] if isinstance(value, str) else value
        if not isinstance(digests, list) or not all(
            isinstance(each, str) and is_digest(each) for each in digests
        ):
            raise table.mistake(
                name,
                'write "sha256:" and 64 hex digits, or a list of such texts; '
                f"`queryable-state token {name}` prints the line",
            )
        if name == ANONYMOUS or not name:
            raise table.mistake(name, "this name is for callers without a token: use another")
        for digest in digests:
            if names.setdefault(digest, name) != name:
                raise table.mistake(name, f"{names[digest]!r} has the same token: use two tokens")
    return names


def _grant(table: _Table) -> Grant:
    table.allow("callers", "roles", "jobs", "states", "kinds")
    table.required("callers", "roles")
    table.required("jobs")
    table.required("states")
    table.required("kinds")
    kinds = Kind.NONE
    for name in table.names("kinds", KINDS):
        kinds |= KINDS[name]
    return Grant(
        callers=NamePattern(table.texts("callers")),
        roles=frozenset(table.texts("roles")),
        jobs=JobPattern(table.texts("jobs")),
        states=NamePattern(table.texts("states")),
        kinds=kinds,
    )


def _limit(table: _Table) -> Limit:
    table.allow("callers", "jobs", "states", *RATES)
    rates = {name: table.number(name, most=1e12) for name in RATES}
    if not any(rates.values()):
        raise table.mistake("queries_per_s", f"set one of {', '.join(RATES)}")
    if table.values.get("jobs") and not table.values.get("states"):
        raise table.mistake("states", 'set them too, as in states = ["*"]')
    callers, jobs, states = (table.texts(key) for key in ("callers", "jobs", "states"))
    return Limit(
        callers=NamePattern(callers) if callers else None,
        jobs=JobPattern(jobs) if jobs else JobPattern(["*"]),
        states=NamePattern(states) if states else None,
        **rates,
    )
