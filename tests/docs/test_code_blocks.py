"""Every code block of the documentation, run as printed against the shipped jobs.

A page is one program: its blocks run from top to bottom, Python blocks in one namespace with
top-level await, as `python -m asyncio` does. Addresses and folders are replaced by those of the
test's jobs.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import re
import shlex
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.docs.pages import PAGES, ROOT, Block, blocks, commands

from queryable_state.cli import main, parser

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.docs.conftest import Site

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("path_of_commands")]

ANSWERED_S = 30.0

# Not run: they need the network, or change the machine.
NOT_RUN = frozenset({"git", "cd", "pip", "python"})

SERVERS = frozenset({"serve", "proxy"})


def with_code(page: Path) -> bool:
    """True if a page has blocks to run here; those of deploy/ run in tests/standalone."""
    return not page.is_relative_to(ROOT / "deploy") and any(
        block.language in ("python", "console") for block in blocks(page)
    )


# They need a broker (tests/kafka/test_page.py), certificates (tests/security/test_tls_page.py) or
# a web port (tests/web/test_rest_page.py).
RUN_ELSEWHERE = ("kafka.md", "tls.md", "rest.md")

PAGES_WITH_CODE = [page for page in PAGES if with_code(page) and page.name not in RUN_ELSEWHERE]


# The others are slow.
FIRST = ("README.md", "tutorial.md", "native-state.md")


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page,
            id=str(page.relative_to(ROOT)),
            marks=[] if page.name in FIRST else pytest.mark.slow,
        )
        for page in PAGES_WITH_CODE
    ],
)
def test_code_blocks_run_as_printed(page: Path, site: Site) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    missing: set[str] = set()
    try:
        with asyncio.Runner() as runner:
            for block in blocks(page):
                if block.language == "python":
                    run_python(block, site, namespace, runner)
                elif block.language == "console":
                    for command in commands(block):
                        run_command(command, site, block, missing)
                elif block.language == "toml":
                    write_file(block, site)
            close_clients(namespace, runner)
    finally:
        site.stop_others()
    if missing:
        pytest.skip(f"all but the commands of {sorted(missing)}, which this machine lacks")


def run_python(block: Block, site: Site, namespace: dict[str, Any], runner: asyncio.Runner) -> None:
    """Runs a block; raises what it raises, with the place of the block."""
    source = site.localized(block.text)
    code = compile(source, str(block), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if code.co_flags & inspect.CO_COROUTINE:

        async def run() -> None:
            await eval(code, namespace)  # noqa: S307 - the documentation's own code

        runner.run(run())
    else:
        exec(code, namespace)


def close_clients(namespace: dict[str, Any], runner: asyncio.Runner) -> None:
    """Closes what a page leaves open, as the end of its program does."""

    async def close() -> None:
        for value in namespace.values():
            if hasattr(value, "aclose") and not isinstance(value, type):
                await value.aclose()

    runner.run(close())


def write_file(block: Block, site: Site) -> None:
    """Writes a block into the file that its first line names."""
    name = block.text.partition("\n")[0].removeprefix("# ")
    (site.folder / name).write_text(block.text)
    site.files.add(name)


def run_command(command: str, site: Site, block: Block, missing: set[str]) -> None:
    """Runs a command, or checks that what it names exists."""
    words = shlex.split(site.localized(command), comments=True)
    match words:
        case ["make" | "scripts/run.sh" | ".venv/bin/python", *_]:
            check_names(command, words)
        case [name, *_] if name in NOT_RUN:
            pass
        case ["export", assignment]:
            # Until the end of the page: a fixture restores the environment.
            name, _, value = assignment.partition("=")
            os.environ[name] = value
        case ["queryable-state", subcommand, *_] if subcommand in SERVERS:
            serve(words, site)
        case ["queryable-state", *arguments]:
            assert main(arguments) == 0, f"{block}: {command}"
        case ["grpcurl", *arguments]:
            try:
                answered = subprocess.run(
                    ["grpcurl", *arguments],
                    capture_output=True,
                    text=True,
                    timeout=ANSWERED_S,
                    check=False,
                )
            except FileNotFoundError:
                missing.add("grpcurl")
            else:
                assert answered.returncode == 0, f"{block}: {command}: {answered.stderr}"
        case _:
            pytest.fail(f"{block}: run_command does not know {command!r}")


def check_names(command: str, words: list[str]) -> None:
    """Targets, files, modules and flags of a command that is too long to run here."""
    if words[0] == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        named = [word for word in words[1:] if "=" not in word]
        assert set(named) <= set(targets), command
        return
    arguments = words[words.index("python") + 1 :] if "python" in words else words[1:]
    if arguments[:2] == ["-m", "pytest"]:
        files = [word.partition("::")[0] for word in arguments if word.startswith("tests/")]
        assert all((ROOT / file).exists() for file in files), command
        return
    if arguments[0] == "-m":
        path = ROOT / arguments[1].replace(".", "/")
        program = path / "__main__.py" if path.is_dir() else path.with_suffix(".py")
        # Programs of one package share modules that declare arguments.
        package = ROOT / arguments[1].partition(".")[0]
        sources = "".join(file.read_text() for file in package.rglob("*.py"))
        arguments = arguments[1:]
    else:
        program = ROOT / arguments[0]
        assert program.exists(), command
        sources = program.read_text()
    assert program.exists(), command
    for flag in (word for word in arguments[1:] if word.startswith("--")):
        assert f'"{flag.partition("=")[0]}"' in sources, f"{command}: no flag {flag}"


def serve(words: list[str], site: Site) -> None:
    """Starts a command that serves, asks it for its states, and stops it."""
    parser().parse_args(words[1:])
    # Any free port, whichever the command names: others may run on this machine.
    process = subprocess.Popen(
        [*words, "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=site.folder,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        address = said.split()[-1]
        assert main(["states", "--server", address]) == 0, said
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=ANSWERED_S)


@pytest.fixture(autouse=True)
def _asked_server(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands without --server ask the proxy of the shipped jobs, once it has their states."""
    monkeypatch.setenv("QUERYABLE_STATE_SERVER", site.proxy)
    # Restored afterwards, whatever the page exports.
    monkeypatch.setenv("QUERYABLE_STATE_TOKEN", "")
    deadline = time.monotonic() + ANSWERED_S
    wait_until(lambda: main(["get", "lastTemperature", "sensor_1"]) == 0, deadline)


def wait_until(done: Callable[[], bool], deadline: float) -> None:
    """Returns once `done()`; fails after the deadline."""
    while not done():
        assert time.monotonic() < deadline, "the temperature job has no state yet"
        time.sleep(0.1)
