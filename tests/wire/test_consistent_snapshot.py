"""The consistent snapshot: which owners are queried again, and when a read starts over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryable_state.v1 import query_pb2
from queryable_state.wire.consistent_snapshot import check_snapshot, snapshot_of, starts_over
from queryable_state.wire.errors import InvalidRequestError, PlacementError, VersionGoneError


@given(versions=st.dictionaries(st.integers(), st.integers(-1, 5), min_size=1))
def test_owners_that_are_ahead_are_queried_again(versions: dict[int, int]) -> None:
    snapshot = snapshot_of(versions)
    assert snapshot.version == min(versions.values())
    after = versions | dict.fromkeys(snapshot.again, snapshot.version)
    assert snapshot_of(after).again == ()
    assert set(after.values()) == {snapshot.version}


def test_only_a_version_that_is_gone_starts_over() -> None:
    assert starts_over(VersionGoneError("compacted").to_proto())
    assert not starts_over(PlacementError("moved").to_proto())


def test_uncommitted_values_have_no_snapshot() -> None:
    check_snapshot(query_pb2.COMMITTED)
    with pytest.raises(InvalidRequestError, match="uncommitted"):
        check_snapshot(query_pb2.UNCOMMITTED)
