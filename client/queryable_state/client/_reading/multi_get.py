"""Results of a multi-key lookup in which each key may fail alone."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from queryable_state.client._notebook.html import html_table
from queryable_state.client._reading.states import DecodeContext, KvState
from queryable_state.wire.errors import QueryableStateError, UnknownKeyOrNamespaceError

if TYPE_CHECKING:
    from queryable_state.client._reading.info import ReadInfo
    from queryable_state.client._reading.outcomes import Outcome


class KeyStatus(enum.Enum):
    """Status of one key."""

    FOUND = "found"
    """It has a state."""

    MISSING = "missing"
    """Nothing is stored under it."""

    FAILED = "failed"
    """It could not be read; the error has the reason and whether a retry may help."""


@dataclass(frozen=True, slots=True)
class KeyResult:
    """One key of a `MultiGet`."""

    key: Any
    """As the caller gave it."""

    status: KeyStatus

    state: KvState | None = None
    """The state if the key was found."""

    error: QueryableStateError | None = None
    """The error if the key failed."""

    info: ReadInfo | None = None
    """The batch at which it was read and the server that answered; None if it failed."""

    def get(self) -> KvState:
        """Returns the state; raises the error, or `UnknownKeyOrNamespaceError` if it is missing."""
        if self.state is not None:
            return self.state
        if self.error is not None:
            raise self.error.copy()
        raise UnknownKeyOrNamespaceError(f"nothing is stored under key {self.key!r}")


class MultiGet(Sequence[KeyResult]):
    """Results of many keys: a sequence of `KeyResult`, aligned with the requested keys.

    At least one key was read, unless none was requested. `found` and `missing` leave out the keys
    that failed: check `complete`, or call `raise_if_failed`.
    """

    def __init__(self, keys: Sequence[Any], outcomes: Sequence[Outcome]) -> None:
        self._keys = keys
        self._outcomes = outcomes

    def found(self) -> list[tuple[Any, KvState]]:
        """The keys that have a state, with their states."""
        return [
            (key, outcome)
            for key, outcome in zip(self._keys, self._outcomes, strict=True)
            if isinstance(outcome, KvState)
        ]

    @property
    def missing(self) -> list[Any]:
        """The keys nothing is stored under."""
        return [
            key
            for key, outcome in zip(self._keys, self._outcomes, strict=True)
            if isinstance(outcome, DecodeContext)
        ]

    @property
    def failed(self) -> list[tuple[Any, QueryableStateError]]:
        """The keys that could not be read, with their errors."""
        return [
            (key, outcome)
            for key, outcome in zip(self._keys, self._outcomes, strict=True)
            if isinstance(outcome, QueryableStateError)
        ]

    @property
    def complete(self) -> bool:
        """True if every key was read: it is found or missing."""
        return not any(isinstance(outcome, QueryableStateError) for outcome in self._outcomes)

    def raise_if_failed(self) -> None:
        """Raises the error of the first key that could not be read; does nothing if `complete`."""
        for outcome in self._outcomes:
            if isinstance(outcome, QueryableStateError):
                raise outcome.copy()

    @property
    def info(self) -> dict[str, ReadInfo]:
        """The newest `ReadInfo` of each server that answered, by server id."""
        infos: dict[str, ReadInfo] = {}
        for info in self._infos():
            known = infos.get(info.server_id)
            if known is None or known.version < info.version:
                infos[info.server_id] = info
        return infos

    @property
    def version(self) -> int | None:
        """The batch of all keys that were read; None if there are several batches or no key.

        With `one_cut` there is only one batch.
        """
        versions = {info.version for info in self._infos()}
        return versions.pop() if len(versions) == 1 else None

    @overload
    def __getitem__(self, index: int) -> KeyResult: ...
    @overload
    def __getitem__(self, index: slice) -> list[KeyResult]: ...
    def __getitem__(self, index: int | slice) -> KeyResult | list[KeyResult]:
        if isinstance(index, slice):
            return [self._result(position) for position in range(*index.indices(len(self)))]
        return self._result(index)

    def __len__(self) -> int:
        return len(self._outcomes)

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} of {len(self)} keys: {len(self.found())} found, "
            f"{len(self.missing)} missing, {len(self.failed)} failed>"
        )

    def _repr_html_(self) -> str:
        outcomes = zip(self._keys, self._outcomes, strict=True)
        rows = (
            (key, "nothing is stored" if isinstance(outcome, DecodeContext) else repr(outcome))
            for key, outcome in outcomes
        )
        return html_table(repr(self)[1:-1], ("key", "state"), rows, of=len(self))

    def _infos(self) -> list[ReadInfo]:
        # All keys of an answer share one ReadInfo.
        infos = {
            id(outcome.info): outcome.info
            for outcome in self._outcomes
            if not isinstance(outcome, QueryableStateError)
        }
        return list(infos.values())

    def _result(self, position: int) -> KeyResult:
        key, outcome = self._keys[position], self._outcomes[position]
        if isinstance(outcome, KvState):
            return KeyResult(key, KeyStatus.FOUND, state=outcome, info=outcome.info)
        if isinstance(outcome, DecodeContext):
            return KeyResult(key, KeyStatus.MISSING, info=outcome.info)
        return KeyResult(key, KeyStatus.FAILED, error=outcome)
