"""Every question of the client, answered from a checkpoint of a job that does not run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queryable_state.client import Consistency, InvalidRequestError, Role

if TYPE_CHECKING:
    from tests.serve.conftest import Ended

    from queryable_state.client import QueryableStateClient


async def test_questions_beside_whole_values(client: QueryableStateClient, ended: Ended) -> None:
    entry = await client.get_map_entry("sensors", "counts", "sensor_1", "y")
    assert (entry.value(), entry.info.checkpoint) == (2, str(ended.newest))
    assert await client.contains("sensors", "last", "sensor_1")
    assert not await client.contains("sensors", "counts", "sensor_1", "z")
    assert (await client.size("sensors", "seen", "sensor_1")).elements == 2
    many = await client.multi_get("sensors", "last", ["sensor_1", "nobody"], one_cut=True)
    assert (many.version, many.missing) == (1, ["nobody"])


async def test_scans_measures_and_explanations(client: QueryableStateClient, ended: Ended) -> None:
    scan = client.scan("sensors", "last", prefix="sensor_19")
    scanned = {key: state.value() async for key, state in scan if state is not None}
    assert scanned == {"sensor_19": 19.0} | {f"sensor_{n}": float(n) for n in range(190, 200)}
    assert scan.complete
    assert scan.info is not None
    assert (scan.info.role, scan.info.checkpoint) == (Role.CHECKPOINT, str(ended.newest))
    measured = await client.measure("sensors", "last")
    assert measured.complete
    assert measured.records >= 200
    explained = await client.explain("sensors", "last", "sensor_1")
    assert explained.state is not None
    assert explained.state.value() == 71.5
    assert explained.steps[-1].role is Role.CHECKPOINT


async def test_a_batch_a_checkpoint_will_never_have_is_refused_at_once(
    client: QueryableStateClient,
) -> None:
    read = Consistency.at_least(0)
    state = await client.get_kv_state("sensors", "last", "sensor_1", consistency=read)
    assert state.info.version == 1
    with pytest.raises(InvalidRequestError, match="batch 2"):
        await client.get_kv_state(
            "sensors", "last", "sensor_1", consistency=Consistency.at_least(2)
        )
