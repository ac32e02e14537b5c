"""What a part of a query keeps of the whole."""

from __future__ import annotations

import pytest

from queryable_state.server.metrics.proxy_counts import ProxyCounts
from queryable_state.server.query.proxy.proxied_query import ProxiedQuery
from queryable_state.v1 import query_pb2


@pytest.mark.parametrize(
    ("elements", "kept"), [([], []), ([b"x"], [b"x"]), ([b"x", b"y", b"z"], [b"z", b"x"])]
)
def test_a_part_has_the_elements_of_its_keys(elements: list[bytes], kept: list[bytes]) -> None:
    whole = query_pb2.Query(id=1, keys=[b"a", b"b", b"c"], elements=elements, at_version=-1)
    part = ProxiedQuery(whole, b"", 10.0, ProxyCounts(), server_id="proxy").sub_query(
        9, [2, 0], 0.0
    )
    assert (list(part.keys), list(part.elements)) == ([b"c", b"a"], kept)
    assert part.at_version == -1


def test_a_part_of_a_query_of_the_newest_batch_is_so_too() -> None:
    whole = query_pb2.Query(id=1, keys=[b"a", b"b"], min_version=3)
    part = ProxiedQuery(whole, b"", 10.0, ProxyCounts(), server_id="proxy").sub_query(9, [1], 0.0)
    assert not part.HasField("at_version")
    assert part.min_version == 3
