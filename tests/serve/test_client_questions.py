"""Every question of the client, answered from a checkpoint of a job that does not run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queryable_state.cli import parser
from queryable_state.cli.arguments import answer
from queryable_state.client import Consistency, InvalidRequestError, Role

if TYPE_CHECKING:
    from tests.serve.conftest import Ended

    from queryable_state.client import QueryableStateClient
    from queryable_state.server.checkpoint_server.server import CheckpointServer


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


@pytest.mark.parametrize("backend", ["heap"])
@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (["get", "last", "sensor_1"], "from {checkpoint}"),
        (["mget", "last", "sensor_1", "sensor_2"], "batch 1 from checkpoint "),
        (["scan", "last", "--prefix", "sensor_19"], "11 keys, batch 1, "),
        (["explain", "last", "sensor_1"], "71.5"),
        (["states", "--measure"], "yes"),
        (["jobs"], "sensors"),
    ],
)
async def test_the_commands_ask_a_checkpoint_too(
    server: CheckpointServer,
    ended: Ended,
    command: list[str],
    shown: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = parser().parse_args([*command, "--server", server.address])
    assert await answer(options) == 0
    assert shown.format(checkpoint=ended.newest) in capsys.readouterr().out
