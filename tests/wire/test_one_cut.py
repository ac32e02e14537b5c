"""The rule of one cut: who is asked again, and when all begins anew."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queryable_state.v1 import query_pb2
from queryable_state.wire.consistent_snapshot import check_snapshot, snapshot_of, starts_over
from queryable_state.wire.errors import InvalidRequestError, PlacementError, VersionGoneError


@settings(deadline=None)
@given(versions=st.dictionaries(st.integers(), st.integers(-1, 5), min_size=1))
def test_asked_again_are_those_that_are_ahead(versions: dict[int, int]) -> None:
    cut = snapshot_of(versions)
    assert cut.version == min(versions.values())
    asked_again = versions | dict.fromkeys(cut.again, cut.version)
    assert snapshot_of(asked_again).again == ()
    assert set(asked_again.values()) == {cut.version}


def test_only_a_version_that_is_gone_starts_over() -> None:
    assert starts_over(VersionGoneError("compacted").to_proto())
    assert not starts_over(PlacementError("moved").to_proto())


def test_what_is_not_committed_has_no_cut() -> None:
    check_snapshot(query_pb2.COMMITTED)
    with pytest.raises(InvalidRequestError, match="uncommitted"):
        check_snapshot(query_pb2.UNCOMMITTED)
