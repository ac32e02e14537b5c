"""Real processes with every port there is, a witness that measures, and what each run costs."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from tests.hostile.attack import frame_port, state_id_of

from queryable_state.server.cli.driver_arguments import SECRET_VARIABLE
from queryable_state.server.security.access.tokens import digest_of

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS = float(os.environ.get("HOSTILE_SECONDS", "2"))
"""How long each attack lasts."""

ROOT = Path(__file__).parents[2]
_STAMPED = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\S* (\w+) (\S+?): (.*)")


@dataclass
class Process:
    """One of ours, with its log."""

    name: str
    pid: int
    log: Path

    def rss_bytes(self) -> int:
        """Its memory now."""
        return int(psutil.Process(self.pid).memory_info().rss)


@dataclass
class Site:
    """What is attacked."""

    processes: list[Process]
    witness: subprocess.Popen[str]
    attacker: subprocess.Popen[str]

    def seen(self) -> dict[str, dict[str, Any]]:
        """What the witness saw since it was asked last."""
        seen: dict[str, dict[str, Any]] = _told(self.witness, "\n")
        return seen

    def attack(self, name: str, seconds: float) -> dict[str, int]:
        """Runs an attack to its end; returns how often it got which answer."""
        answers: dict[str, int] = _told(self.attacker, f"{name} {seconds}\n")
        return answers


def _told(process: subprocess.Popen[str], line: str) -> Any:
    """What a process answers to a line."""
    assert process.stdin is not None
    process.stdin.write(line)
    process.stdin.flush()
    return json.loads(_line(process))


TOKEN = "qst_hostile"
RULES = f"""
[tokens]
everyone = "{digest_of(TOKEN)}"
[[grants]]
callers = ["*"]
jobs = ["*"]
states = ["*"]
kinds = ["read", "scan", "list", "admin"]
"""

ATTACKERS = ("anyone", "without token", "with token")
"""Authentication is off; it is on, and attackers have no token; they have one."""


@pytest.fixture(scope="session", params=ATTACKERS)
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """A driver, a state server, a proxy of its own and a checkpoint server."""
    access: tuple[str, ...] = ()
    environment = {"QUERYABLE_STATE_TOKEN": ""}
    if request.param != "anyone":
        rules = tmp_path_factory.mktemp("access") / "access.toml"
        rules.write_text(RULES)
        access = (str(rules),)
        environment = {"QUERYABLE_STATE_TOKEN": TOKEN}
    flags = ("--access-file", *access) if access else ()
    folder = tmp_path_factory.mktemp("hostile")
    started: list[subprocess.Popen[Any]] = []

    def start(name: str, *command: str, **environment: str) -> subprocess.Popen[str]:
        # Hostile peers have processors of their own.
        nice = ("nice", "-n", "19") if name == "attacker" else ()
        with (folder / f"{name}.log").open("w") as log:
            process = subprocess.Popen(
                [*nice, sys.executable, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=ROOT,
                env=os.environ | environment,
            )
        started.append(process)
        return process

    command = "import sys; from queryable_state.cli import main; sys.exit(main())"
    try:
        driver = start("driver", "-m", "tests.hostile.driver", str(folder / "job"), *access)
        told = json.loads(_line(driver))
        server = told["server"]
        secret = {SECRET_VARIABLE: told["secret"]}
        while True:
            proxy = start(
                "proxy", "-c", command, "proxy", "--coordinator", told["coordinator"], "--port",
                "0", *flags, **secret,
            )  # fmt: skip
            with contextlib.suppress(AssertionError):
                proxy_address = _line(proxy).split()[-1]
                break
            # A machine with much to do makes it wait too long for the coordinator.
            assert len(started) < 6, (folder / "proxy.log").read_text()
        checkpoint = start(
            "checkpoint",
            "-c",
            command,
            "serve",
            "--checkpoint",
            told["root"],
            "--port",
            "0",
            *flags,
        )
        checkpoint_address = _line(checkpoint).split()[-1]
        public = [server["query"], server["proxy"], proxy_address, checkpoint_address]
        witness = start(
            "witness", "-m", "tests.hostile.witness", server["proxy"], proxy_address,
            checkpoint_address, **environment,
        )  # fmt: skip
        targets = {
            "public": public,
            "internal": [told["coordinator"], server["backend"]],
            "frames": [frame_port(address, TOKEN) for address in public],
            "token": TOKEN if request.param == "with token" else "",
            "large_id": state_id_of(server["query"], "sensors", "large", TOKEN),
        }
        attacker = start("attacker", "-m", "tests.hostile.attacks", json.dumps(targets))
        yield Site(
            [
                Process("driver", driver.pid, folder / "driver.log"),
                Process(
                    "state server", server["pid"], folder / "job" / "executor-1" / "server.log"
                ),
                Process("proxy", proxy.pid, folder / "proxy.log"),
                Process("checkpoint server", checkpoint.pid, folder / "checkpoint.log"),
            ],
            witness,
            attacker,
        )
    finally:
        for process in reversed(started):
            process.terminate() if process is not started[0] else process.stdin.close()  # type: ignore[union-attr]
            process.wait(30)


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, f"{process.args!r} has ended"
    return line


def busiest_second(log: str) -> tuple[int, str]:
    """The line that a log has most often within a second, numbers aside, and how often."""
    counts: dict[tuple[str, str], int] = {}
    for line in log.splitlines():
        found = _STAMPED.match(line)
        if found is not None:
            second, _, logger, text = found.groups()
            key = (second, f"{logger}: {re.sub('[0-9,.]+', '0', text)[:60]}")
            counts[key] = counts.get(key, 0) + 1
    worst = max(counts, key=counts.__getitem__, default=("", ""))
    return counts.get(worst, 0), worst[1]


def settled_rss(process: Process, bound_bytes: float, timeout_s: float = 60.0) -> int:
    """The memory of a process once it is below the bound, or after the time.

    A process whose last trim of free memory took long waits 30 s before the next one.
    """
    ends_s = time.monotonic() + timeout_s
    while (rss := process.rss_bytes()) > bound_bytes and time.monotonic() < ends_s:
        time.sleep(0.2)
    return rss
