"""Commands `status`, `errors` and `servers`, and common options in front of a command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queryable_state.cli.commands.status import _lines
from queryable_state.cli.common_options import behind_command
from queryable_state.client import JobDescription
from queryable_state.v1 import status_pb2

if TYPE_CHECKING:
    from tests.cli.conftest import Terminal

    from queryable_state.server.testing.cluster import InProcessJob


async def test_a_healthy_job_has_no_findings(terminal: Terminal, job: InProcessJob) -> None:
    ran = await terminal.run("status", "sensors")
    assert f"job sensors ({job.job_id}): HEALTHY" in " ".join(ran.rows[0])
    as_json = (await terminal.run("status", "--json")).json
    assert (as_json["info"]["health"], as_json["findings"]) == ("HEALTHY", [])
    assert as_json["operators"][0]["owners"][0]["open"] is True


def test_sources_and_what_is_over_stand_in_status() -> None:
    description = status_pb2.JobDescription(
        as_of_ms=100_000,
        sources=[
            status_pb2.SourceStatus(
                description="KafkaV2[Subscribe[t]]",
                last_rows_at_ms=95_000,
                backlog=1_200,
                backlog_unit="rows",
            ),
            status_pb2.SourceStatus(
                description="FileStreamSource[file:/x]", backlog=3, backlog_unit="files"
            ),
            status_pb2.SourceStatus(description="the timers of the job"),
        ],
        ended_findings=[
            status_pb2.EndedFinding(
                code="JOB_BEHIND", began_ms=10_000, ended_ms=60_000, message="3 files wait."
            )
        ],
    )
    lines = list(_lines(JobDescription.from_proto(description)))
    assert "input 0 (KafkaV2[Subscribe[t]]): last rows 5 s ago, waiting: 1,200 rows" in lines
    assert "input 1 (FileStreamSource[file:/x]): no rows yet, waiting: at least 3 files" in lines
    assert not any("timers of the job" in line for line in lines)
    assert lines.index("over:") > lines.index("")
    [over] = [line for line in lines if "JOB_BEHIND" in line]
    assert over.startswith("  JOB_BEHIND ")
    assert over.endswith(": 3 files wait.")


async def test_servers_are_listed_with_their_leases(terminal: Terminal) -> None:
    servers = (await terminal.run("servers", "--json")).json["servers"]
    assert {server["lease"] for server in servers} == {"HELD"}
    assert "HELD" in (await terminal.run("servers")).rows[1]


async def test_a_job_without_failures_says_so(terminal: Terminal) -> None:
    assert (await terminal.run("errors", "--json")).json == {"errors": []}
    assert "no run of sensors has failed" in " ".join((await terminal.run("errors")).rows[0])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--json jobs", "jobs --json"),
        ("--server a:1 --json get s k", "get --server a:1 --json s k"),
        ("--timeout=2 --tls-ca f scan s", "scan --timeout=2 --tls-ca f s"),
        ("jobs --json", "jobs --json"),
        ("--version", "--version"),
        ("--json", "--json"),
    ],
)
def test_common_options_may_stand_in_front_of_the_command(words: str, expected: str) -> None:
    assert behind_command(words.split()) == expected.split()
