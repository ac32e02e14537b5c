"""The code of docs/tls.md with certificates made for it: every command and block as printed."""

from __future__ import annotations

import ast
import asyncio
import os
import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from tests.docs.pages import ROOT, blocks, commands
from tests.security.authority import HOSTS
from tests.waiting import DEADLINE_S

from queryable_state.cli import main
from queryable_state.server.testing.cluster import InProcessCluster, declare

if TYPE_CHECKING:
    from pathlib import Path

    from tests.security.authority import Authority

PAGE = ROOT / "docs" / "tls.md"


@pytest.fixture
def _files(tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that the page names, in the working directory, and the commands of .venv."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("QUERYABLE_STATE_TOKEN", "")
    shutil.copy(authority.ca, "ca.crt")
    for name, hosts in (("tls", (*HOSTS, "state.example.org")), ("me", ("me.example.org",))):
        certificate, key = authority.write(name, *hosts)
        shutil.copy(certificate, f"{name}.crt")
        shutil.copy(key, f"{name}.key")
    (access,) = (each for each in blocks(ROOT / "docs" / "security.md") if each.language == "toml")
    (tmp_path / "access.toml").write_text(access.text)


@pytest.mark.usefixtures("_files")
async def test_code_blocks_run_as_printed(tmp_path: Path, authority: Authority) -> None:
    async with InProcessCluster(tmp_path / "cluster", servers=1, tls=authority.settings()) as site:
        job = site.job("sensors", declare("lastTemperature", "string", "double"))
        await job.run(0, {"lastTemperature": {"sensor_1": 21.5}})
        (tmp_path / "job.secret").write_text(site.coordinator.secret)
        places = {"driver.example.org:6123": site.coordinator.address}
        namespace: dict[str, Any] = {"__name__": "__main__"}
        proxy: asyncio.subprocess.Process | None = None
        try:
            for block in blocks(PAGE):
                if block.language == "python":
                    await run_python(localized(block.text, places), namespace)
                for command in commands(block) if block.language == "console" else ():
                    words = shlex.split(localized(command, places))
                    if words[:2] == ["queryable-state", "proxy"]:
                        proxy = await start(words)
                        assert proxy.stdout is not None
                        port = (await proxy.stdout.readline()).decode().strip().rpartition(":")[2]
                        places["proxy.example.org:9069"] = f"127.0.0.1:{port}"
                        places['"proxy.example.org", 9069'] = f'"127.0.0.1", {port}'
                    else:
                        await asyncio.to_thread(run, words)
        finally:
            assert proxy is not None
            proxy.terminate()
            await proxy.wait()
        assert namespace["state"].value() == 21.5


def localized(text: str, places: dict[str, str]) -> str:
    for printed, here in places.items():
        text = text.replace(printed, here)
    return text


async def start(words: list[str]) -> asyncio.subprocess.Process:
    """A proxy at any free port, whichever the command names."""
    return await asyncio.create_subprocess_exec(
        *words, "--port", "0", stdout=asyncio.subprocess.PIPE
    )


def run(words: list[str]) -> None:
    match words:
        case ["export", assignment]:
            name, _, value = assignment.partition("=")
            os.environ[name] = value
        case ["queryable-state", *arguments]:
            assert main(arguments) == 0
        case ["grpcurl", *_] if shutil.which("grpcurl") is None:
            pass
        case _:
            subprocess.run(words, check=True, timeout=DEADLINE_S)


async def run_python(text: str, namespace: dict[str, Any]) -> None:
    code = compile(text, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = eval(code, namespace)  # noqa: S307 - the documentation's own code
    if result is not None:
        await result
