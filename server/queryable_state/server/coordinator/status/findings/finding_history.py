"""Findings of one job that are over."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from queryable_state.v1 import status_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_MOST = 50


class FindingHistory:
    """At most 50 ended findings, compared whenever a job is described. Not thread-safe.

    A finding goes on while one with its code and beginning is there. A cause that gets known later
    changes the code and not the beginning; some findings move their beginning with each batch.
    """

    def __init__(self) -> None:
        self._current: list[status_pb2.EndedFinding] = []
        self._ended: deque[status_pb2.EndedFinding] = deque(maxlen=_MOST)

    def observe(self, found: Iterable[status_pb2.Finding], now_ms: int) -> None:
        """Takes the findings of this moment; those that are missing have ended."""
        current = [
            status_pb2.EndedFinding(
                code=each.code,
                severity=each.severity,
                message=each.message,
                began_ms=each.since_ms or now_ms,
            )
            for each in found
        ]
        new, left = list(current), self._current
        for is_same in (_same_code_and_begin, _same_begin, _same_code):
            new, left = _continued(new, left, is_same)
        for each in left:
            each.ended_ms = now_ms
            self._ended.appendleft(each)
        for each in new:
            # A moment without it was none.
            again = next((old for old in self._ended if _same_code_and_begin(each, old)), None)
            if again is not None:
                self._ended.remove(again)
        self._current = current

    def ended(self) -> Sequence[status_pb2.EndedFinding]:
        """Those that are over, newest end first."""
        return tuple(self._ended)


def _continued(
    new: list[status_pb2.EndedFinding],
    left: list[status_pb2.EndedFinding],
    is_same: Callable[[status_pb2.EndedFinding, status_pb2.EndedFinding], bool],
) -> tuple[list[status_pb2.EndedFinding], list[status_pb2.EndedFinding]]:
    """Gives findings that go on their first beginning; returns the others."""
    left = list(left)
    begun = []
    for each in new:
        old = next((known for known in left if is_same(each, known)), None)
        if old is None:
            begun.append(each)
        else:
            left.remove(old)
            each.began_ms = min(each.began_ms, old.began_ms)
    return begun, left


def _same_code_and_begin(one: status_pb2.EndedFinding, other: status_pb2.EndedFinding) -> bool:
    return (one.code, one.began_ms) == (other.code, other.began_ms)


def _same_begin(one: status_pb2.EndedFinding, other: status_pb2.EndedFinding) -> bool:
    return one.began_ms == other.began_ms


def _same_code(one: status_pb2.EndedFinding, other: status_pb2.EndedFinding) -> bool:
    return one.code == other.code
