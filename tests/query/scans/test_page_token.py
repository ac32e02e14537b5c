"""Page tokens: whole round trips, and refusals of whatever is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryable_state.server.query.reads.scan_read import PageToken, scan_hash_of
from queryable_state.server.query.scan_query import ScanQuery
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import InvalidRequestError

PINNED = "0100000003ffffffffffffffffc30676e40eb5febc000573656e736f7200014b75171e"
UINT64 = st.integers(0, (1 << 64) - 1)
TOKENS = st.builds(
    PageToken,
    st.integers(0, (1 << 32) - 1),
    st.integers(-1, (1 << 63) - 1),
    UINT64,
    st.binary(min_size=2, max_size=40),
)
SCAN = ScanQuery(state_id=7, first_key_group=0, last_key_group=127, start=b"a", end=b"b")


@given(TOKENS)
def test_a_token_comes_back_whole(token: PageToken) -> None:
    assert PageToken.unseal(token.seal()) == token


@given(TOKENS, st.data())
def test_a_token_that_was_damaged_is_refused(token: PageToken, data: st.DataObject) -> None:
    sealed = token.seal()
    at = data.draw(st.integers(0, len(sealed) - 1))
    damaged = bytearray(sealed)
    damaged[at] ^= data.draw(st.integers(1, 255))
    for other in (bytes(damaged), sealed[:at], sealed + b"\x00"):
        with pytest.raises(InvalidRequestError, match="not intact"):
            PageToken.unseal(other)


@given(st.binary(max_size=60))
def test_any_bytes_are_no_token(garbage: bytes) -> None:
    with pytest.raises(InvalidRequestError):
        PageToken.unseal(garbage)


def test_the_format_is_pinned() -> None:
    token = PageToken(3, -1, scan_hash_of(SCAN), b"\x00\x05sensor\x00\x01")
    assert token.seal().hex() == PINNED
    assert PageToken.unseal(bytes.fromhex(PINNED)) == token


@pytest.mark.parametrize(
    "change",
    [
        {"start": b""},
        {"end": None},
        {"end": b""},
        {"start": b"ab", "end": b""},
        {"namespace": b"\x01" * 17},
        {"first_key_group": 1},
        {"last_key_group": 126},
        {"consistency": query_pb2.UNCOMMITTED},
        {"allow_incomplete": True},
    ],
)
def test_scans_of_other_keys_have_another_hash(change: dict[str, Any]) -> None:
    assert scan_hash_of(replace(SCAN, **change)) != scan_hash_of(SCAN)


def test_pages_of_any_size_with_values_or_without_are_of_one_scan() -> None:
    other = replace(
        SCAN, limit=3, keys_only=True, at_version=5, after=b"\x00\x01x", page_timeout_ms=9
    )
    assert scan_hash_of(other) == scan_hash_of(SCAN)
