"""Parameters of REST paths: their declarations, from which requests are checked and documented."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from queryable_state.wire.errors import InvalidRequestError, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

TRUE = ("1", "true")
FALSE = ("0", "false")

_LARGEST = 2**53 - 1

LEAST_MS = -_LARGEST
"""Earliest time, in milliseconds since the epoch."""


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter of a path or of its query."""

    name: str
    kind: Literal["text", "whole number", "flag", "choice"]
    meaning: str
    place: Literal["path", "query"] = "query"
    required: bool = False
    choices: tuple[str, ...] = ()
    least: int = 0
    """Smallest whole number."""
    most: int = _LARGEST
    """Largest whole number."""

    def parse(self, text: str) -> Any:
        """The value; raises `InvalidRequestError`."""
        if self.kind == "flag":
            if text not in TRUE + FALSE:
                raise self._refusal(text, "1 or 0")
            return text in TRUE
        if self.kind == "choice":
            if text not in self.choices:
                raise self._refusal(text, "one of " + ", ".join(self.choices))
            return text
        if self.kind == "whole number":
            digits = text.removeprefix("-")
            if not (digits.isascii() and digits.isdigit() and len(digits) <= 16):
                raise self._refusal(text, "a whole number")
            if not self.least <= int(text) <= self.most:
                raise self._refusal(text, f"{self.least} to {self.most}")
            return int(text)
        if not text and self.required:
            raise self._refusal(text, "not empty")
        return text

    def _refusal(self, text: str, wanted: str) -> InvalidRequestError:
        return InvalidRequestError(f"parameter {self.name} is {shown(text)!r}: it must be {wanted}")

    def schema(self) -> dict[str, Any]:
        """Its JSON schema."""
        if self.kind == "flag":
            return {"type": "string", "enum": [*TRUE, *FALSE]}
        if self.kind == "choice":
            return {"type": "string", "enum": list(self.choices)}
        if self.kind == "whole number":
            return {"type": "integer", "minimum": self.least, "maximum": self.most}
        return {"type": "string", "minLength": 1} if self.required else {"type": "string"}


def parsed(
    parameters: Iterable[Parameter], path: Mapping[str, str], query: Iterable[tuple[str, str]]
) -> dict[str, Any]:
    """The values of the given parameters by name; None for one that is not given.

    Raises `InvalidRequestError` for an unknown, repeated, missing or malformed parameter.
    """
    declared = {each.name: each for each in parameters}
    found: dict[str, Any] = dict.fromkeys(declared)
    for name, text in path.items():
        found[name] = declared[name].parse(text)
    for name, text in query:
        known = declared.get(name)
        if known is None or known.place == "path":
            names = ", ".join(each.name for each in declared.values() if each.place == "query")
            raise InvalidRequestError(
                f"there is no parameter {shown(name)!r} here: use {names or 'none'}"
            )
        if found[name] is not None:
            raise InvalidRequestError(f"parameter {name} is given more than once")
        found[name] = known.parse(text)
    for each in declared.values():
        if each.required and found[each.name] is None:
            raise InvalidRequestError(f"parameter {each.name} is missing: {each.meaning}")
    return found


JOB = Parameter(
    name="job", kind="text", place="path", required=True, meaning="Id or name of a job."
)
STATE = Parameter(
    name="state", kind="text", place="path", required=True, meaning="Queryable name of a state."
)
KEY = Parameter(
    name="key",
    kind="text",
    required=True,
    meaning="The key as JSON of its type; strings, dates, times and binaries need no quotes.",
)
TIMEOUT = Parameter(
    name="timeout_ms",
    kind="whole number",
    least=1,
    most=600_000,
    meaning="Milliseconds to wait for the answer; default: `default_deadline_ms` of the server.",
)
CONSISTENCY = Parameter(
    name="consistency",
    kind="choice",
    choices=("COMMITTED", "UNCOMMITTED"),
    meaning="COMMITTED (the default) reads the newest committed batch, UNCOMMITTED also the "
    "batch that is sealed and not committed yet.",
)
ALLOW_INCOMPLETE = Parameter(
    name="allow_incomplete",
    kind="flag",
    meaning="1 answers although older state of the key groups is lost.",
)
MIN_VERSION = Parameter(
    name="min_version",
    kind="whole number",
    meaning="Waits until this batch is committed; 0: any batch.",
)
MAX_STALENESS = Parameter(
    name="max_staleness_ms",
    kind="whole number",
    meaning="Waits until the batch read is committed within so many milliseconds before now; "
    "0: any.",
)
WINDOW = (
    Parameter(
        name="window_start",
        kind="whole number",
        least=LEAST_MS,
        meaning="Start of a time window of the key, in milliseconds since the epoch; give "
        "window_end too.",
    ),
    Parameter(
        name="window_end",
        kind="whole number",
        least=LEAST_MS,
        meaning="End of the time window, exclusive.",
    ),
    Parameter(
        name="window_start_us",
        kind="whole number",
        least=LEAST_MS,
        meaning="Instead of window_start: the start in microseconds; give window_end_us too.",
    ),
    Parameter(
        name="window_end_us",
        kind="whole number",
        least=LEAST_MS,
        meaning="Instead of window_end: the end in microseconds, exclusive.",
    ),
)
READING = (CONSISTENCY, ALLOW_INCOMPLETE, MIN_VERSION, MAX_STALENESS, TIMEOUT)
"""Options of every read."""
