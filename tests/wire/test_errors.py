"""Errors as people and other processes get them."""

from __future__ import annotations

import pickle

import pytest

from queryable_state.client import ClientClosedError, NothingListensError
from queryable_state.wire.errors import QueryableStateError, Reason, UnknownKeyOrNamespaceError


def test_the_text_of_an_unknown_key_may_be_made_when_it_is_first_read() -> None:
    worded: list[str] = []

    def wording() -> str:
        worded.append("nothing under key 7")
        return worded[-1]

    error = UnknownKeyOrNamespaceError.worded_later(wording)
    assert (error.reason, error.retry_after_ms, error.candidates) == (Reason.UNKNOWN_KEY, 0, ())
    assert worded == []
    assert str(error) == error.message == "nothing under key 7"
    assert repr(error) == "UnknownKeyOrNamespaceError('nothing under key 7')"
    assert error.args == ("nothing under key 7",)
    assert len(worded) == 1
    copied = pickle.loads(pickle.dumps(UnknownKeyOrNamespaceError.worded_later(wording)))
    assert (type(copied), copied.message) == (UnknownKeyOrNamespaceError, "nothing under key 7")
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        error.other  # noqa: B018


@pytest.mark.parametrize("kind", [ClientClosedError, NothingListensError])
def test_an_error_has_its_class_after_pickling(kind: type[QueryableStateError]) -> None:
    copied = pickle.loads(pickle.dumps(kind("why", retry_after_ms=7)))
    assert (type(copied), str(copied), copied.retry_after_ms) == (kind, "why", 7)
