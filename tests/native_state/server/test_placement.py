"""Look-ups by key in state whose keys Spark does not place by their hash."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.native_state.server.conftest import client_of, everything, keys_of

from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.native_state.server.replay import ReplayedQuery

    from queryable_state.server.native_state.server.native_server import NativeServer


async def test_look_ups_are_refused_and_scans_are_not(
    query: ReplayedQuery, serving: Callable[..., NativeServer]
) -> None:
    query.commit(3)
    async with serving(query.root) as server, client_of(server) as client:
        strict = await everything(client)
    for path in (query.root / "offsets").glob("[0-9]*"):
        path.write_text(path.read_text().replace('Distribution":"true"', 'Distribution":"false"'))
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    async with serving(query.root) as server, client_of(server) as client:
        assert await everything(client) == strict
        key = (await keys_of(client))[0]
        with pytest.raises(InvalidRequestError, match="useStrictDistribution"):
            await client.get_kv_state("query", "aggregation", key)
