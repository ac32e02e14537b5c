"""Errors as people and other processes get them."""

from __future__ import annotations

import pickle
from urllib.parse import quote

import pytest

from queryable_state.client import ClientClosedError, NothingListensError
from queryable_state.v1 import errors_pb2
from queryable_state.wire.errors import (
    QueryableStateError,
    Reason,
    UnknownKeyOrNamespaceError,
    UnknownStateError,
)
from queryable_state.wire.status import details_of, trailing_metadata


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


@pytest.mark.parametrize("text", ["x", "é", "%", "\n", "😀"])
def test_an_error_fits_the_status_of_a_call(text: str) -> None:
    """Clients take 8 KiB of metadata; texts beyond ASCII are sent as three times their bytes."""
    error = UnknownStateError(text * 20_000, candidates=[text * 40] * 1_000)
    ((_, sent),) = trailing_metadata(error)
    assert len(quote(details_of(error), safe="")) + len(sent) < 7_500
    received = QueryableStateError.from_proto(errors_pb2.Error.FromString(sent))
    assert isinstance(received, UnknownStateError)
    assert received.candidates[:2] == error.candidates[:2]
    assert error.message.startswith(received.message.removesuffix(" ..."))


def test_an_error_of_usual_length_is_sent_whole() -> None:
    error = UnknownStateError("no é", candidates=["a", "b"])
    ((_, sent),) = trailing_metadata(error)
    assert errors_pb2.Error.FromString(sent) == error.to_proto()
    assert details_of(error) == "no é"


@pytest.mark.parametrize("kind", [ClientClosedError, NothingListensError])
def test_an_error_has_its_class_after_pickling(kind: type[QueryableStateError]) -> None:
    copied = pickle.loads(pickle.dumps(kind("why", retry_after_ms=7)))
    assert (type(copied), str(copied), copied.retry_after_ms) == (kind, "why", 7)
