"""A cluster of two state servers with one job, and its states asked from the command line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from queryable_state.cli import parser
from queryable_state.cli.arguments import answer
from queryable_state.client import Types
from queryable_state.server.testing.cluster import InProcessCluster, declare
from queryable_state.v1 import registration_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from queryable_state.server.testing.cluster import InProcessJob

TRIP = Types.TUPLE([Types.STRING(), Types.INT()])
TOTALS = Types.ROW_NAMED(["count", "note"], [Types.INT(), Types.STRING()])


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    exit_code: int
    out: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def rows(self) -> list[list[str]]:
        """The cells of the table, head first."""
        table = self.lines[: self.lines.index("")] if "" in self.lines else self.lines
        return [line.split() for line in table]

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Terminal:
    """Runs commands that ask, on the loop of the test, of one server."""

    def __init__(self, address: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.address = address
        self._capsys = capsys

    async def run(self, command: str, *arguments: str) -> Ran:
        """Refusals are raised, as `main` gets them."""
        self._capsys.readouterr()
        options = parser().parse_args([command, "--server", self.address, *arguments])
        exit_code = await answer(options)
        return Ran(exit_code, self._capsys.readouterr().out)

    def printed(self) -> str:
        """What was printed since."""
        return self._capsys.readouterr().out


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[InProcessCluster]:
    async with InProcessCluster(tmp_path, servers=2) as running:
        yield running


@pytest.fixture
async def job(cluster: InProcessCluster) -> InProcessJob:
    """A job named sensors, at batch 1, with states of several kinds and types."""
    started = cluster.job(
        "sensors",
        declare("last", "string", "double"),
        declare("seen", "string", "string", kind=registration_pb2.LIST),
        declare("counts", "string", "bigint", kind=registration_pb2.MAP, map_key_type="string"),
        declare("trips", TRIP, TOTALS),
    )
    await started.run(0, {})
    await started.run(
        1,
        {
            "last": {f"sensor_{number}": number / 2 for number in range(30)},
            "seen": {"sensor_1": ["a", "b\n"]},
            "counts": {"sensor_1": {"x": 1, "y": 2}},
            "trips": {("AA", 1): (10, "on time"), ("AA", 2): (20, ""), ("B", 1): (30, "late")},
        },
    )
    return started


@pytest.fixture
def terminal(
    cluster: InProcessCluster, job: InProcessJob, capsys: pytest.CaptureFixture[str]
) -> Terminal:
    """Asks the first server's proxy."""
    return Terminal(cluster.servers[0].addresses.proxy, capsys)
