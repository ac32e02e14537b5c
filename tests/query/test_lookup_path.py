"""What a warm look-up of one key enters on its owner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.query.lookup_path import path_of_look_up
from tests.query.streams import VALUES, keys_of_server, state_id_of, wire_keys

if TYPE_CHECKING:
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob


async def test_a_look_up_goes_down_once_and_up_once(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    """From the arrival of its bytes to the write of its answer. The path is printed, to see what a
    change adds to it."""
    key = keys_of_server(cluster, 0)[0]
    path, answer = await path_of_look_up(
        cluster.servers[0].addresses.query,
        state_id=await state_id_of(cluster),
        keys=wire_keys(key),
    )
    assert VALUES.decode(answer.values[0]) == float(key.removeprefix("sensor_"))
    assert path.calls[0][1] == "FrameConnection.data_received"
    # Four of the calls, in three files, count a hot key: up to 256 keys/s each one is counted.
    assert len(path.files) <= 10, str(path)
    assert len(path.calls) <= 14, str(path)
    assert path.changes <= 11, str(path)
