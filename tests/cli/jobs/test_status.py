"""Commands `status`, `errors` and `servers`, and common options in front of a command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queryable_state.cli.common_options import behind_command

if TYPE_CHECKING:
    from tests.cli.conftest import Terminal

    from queryable_state.server.testing.cluster import InProcessJob


async def test_a_healthy_job_has_no_findings(terminal: Terminal, job: InProcessJob) -> None:
    ran = await terminal.run("status", "sensors")
    assert f"job sensors ({job.job_id}): HEALTHY" in " ".join(ran.rows[0])
    as_json = (await terminal.run("status", "--json")).json
    assert (as_json["info"]["health"], as_json["findings"]) == ("HEALTHY", [])
    assert as_json["operators"][0]["owners"][0]["open"] is True


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
