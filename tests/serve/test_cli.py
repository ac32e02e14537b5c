"""The commands `queryable-state checkpoints` and `queryable-state serve`."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest
from tests.query.proxy.watching import NOT_SERVING, SERVING, Watched
from tests.waiting import DEADLINE_S

from queryable_state.cli import main
from queryable_state.cli.exit_codes import CONFIGURATION, REFUSED
from queryable_state.client import QueryableStateClient
from queryable_state.server.checkpoint_server.server import CheckpointServer
from queryable_state.server.settings.checkpoint_server_settings import CheckpointServerSettings
from queryable_state.server.testing.cluster import corrupt
from queryable_state.v1 import query_pb2, query_pb2_grpc

if TYPE_CHECKING:
    from pathlib import Path

    from tests.serve.conftest import Ended


# Of the process that serves; a checkpoint that is not there may come.
WRONG_SETTINGS = ("is not a port", "choose another directory")


@pytest.fixture
def backend() -> str:
    """One is enough here."""
    return "rocksdb"


def test_checkpoints_of_a_root_are_listed(ended: Ended, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoints", str(ended.root)]) == 0
    shown = capsys.readouterr().out
    assert f"job sensors ({ended.job_id})" in shown
    assert "epoch 1, changelogs of batches 1 to 1" in shown
    head, newest, operator, oldest, _ = (line.split() for line in shown.splitlines()[-5:])
    assert head == [
        "checkpoint",
        "batch",
        "taken",
        "took",
        "operator",
        "size",
        "new",
        "keys",
        "intact",
    ]
    assert newest[:2] == [ended.newest.name, "1"]
    assert newest[-1] == "sizes"
    assert operator[0] == "operator"
    assert oldest[:2] == [ended.older.name, "0"]


def test_the_list_as_json_has_every_figure(
    ended: Ended, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["checkpoints", str(ended.root), "--json", "--verify"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["job"] == {"id": ended.job_id, "name": "sensors"}
    newest, oldest = report["checkpoints"]
    assert (newest["id"], newest["batch"], newest["intact"]) == (ended.newest_id, 1, True)
    assert (oldest["batch"], oldest["backend"]) == (0, "rocksdb")
    assert 0 < newest["new_bytes"] < newest["size_bytes"]
    [operator] = newest["operators"]
    assert operator["size_bytes"] == newest["size_bytes"]
    assert {state["name"] for state in operator["states"]} == {"last", "seen", "counts"}
    assert operator["keys"] >= 200


def test_one_checkpoint_and_a_savepoint_are_listed(
    ended: Ended, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder, kind in ((ended.newest, "checkpoint"), (ended.savepoint, "savepoint")):
        assert main(["checkpoints", folder.as_uri(), "--json", "--verify"]) == 0
        report = json.loads(capsys.readouterr().out)
        [listed] = report["checkpoints"]
        assert (listed["kind"], listed["batch"], listed["intact"]) == (kind, 1, True)
        assert listed["uri"] == folder.as_uri()


def test_a_file_of_another_size_is_found_without_reading_and_another_byte_by_reading(
    ended: Ended, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = min((ended.root / "shared").iterdir())
    corrupt(shared)
    assert main(["checkpoints", str(ended.root)]) == 0
    assert main(["checkpoints", str(ended.root), "--verify"]) == 1
    assert f"{shared} fails its checksum" in capsys.readouterr().out
    shared.write_bytes(b"")
    assert main(["checkpoints", str(ended.root)]) == 1
    assert f"{shared} has 0 bytes instead of" in capsys.readouterr().out
    shared.unlink()
    assert main(["checkpoints", str(ended.root)]) == 1
    assert f"{shared} is missing" in capsys.readouterr().out


def test_broken_and_begun_checkpoints_are_told_apart(
    ended: Ended, capsys: pytest.CaptureFixture[str]
) -> None:
    (ended.root / "chk-99").mkdir()
    assert main(["checkpoints", str(ended.root)]) == 0
    assert "chk-99: it was not completed" in capsys.readouterr().out
    (ended.root / "chk-99" / "_metadata").write_bytes(b"SQCM")
    assert main(["checkpoints", str(ended.root)]) == 1
    assert "chk-99/_metadata is truncated" in capsys.readouterr().out


def test_a_savepoint_without_its_spark_part_is_not_intact(
    ended: Ended, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in (ended.savepoint / "spark").iterdir():
        file.unlink()
    assert main(["checkpoints", str(ended.savepoint)]) == 1
    assert "no job can start from the savepoint" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["checkpoints", "no/such/folder"], "there is nothing at /"),
        (["checkpoints", "nowhere://x"], "the scheme 'nowhere' of nowhere://x is unknown"),
        (["checkpoints", "driver:/job"], "memory of the job's driver"),
        (["checkpoints", "/tmp", "--storage-options", "endpoint"], "not valid JSON"),
        (["checkpoints", "/tmp", "--storage-options", "[]"], "not a JSON object"),
        (["serve", "--checkpoint", "/no/such/folder", "--port", "0"], "there is nothing at /no/su"),
        (["serve", "--checkpoint", "/tmp", "--port", "many"], "is not a port"),
        (["serve", "--checkpoint", "/tmp", "--directory", "/no/such"], "choose another directory"),
    ],
)
def test_what_cannot_work_is_said_in_one_line(
    arguments: list[str],
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("GRPC_EXPERIMENTS", "")
    assert main(arguments) == (CONFIGURATION if text in WRONG_SETTINGS else REFUSED)
    error = capsys.readouterr().err
    assert text in error
    assert "Traceback" not in error


def test_a_stated_port_that_is_taken_is_refused(
    ended: Ended, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever asks there next would be answered by another process."""
    monkeypatch.setenv("GRPC_EXPERIMENTS", "")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        words = ["serve", "--checkpoint", str(ended.savepoint), "--port", port]
        # Not CONFIGURATION: the other process may end.
        assert main(words) == REFUSED
        printed = capsys.readouterr()
        assert f"--port is '{port}', and no port of it is free" in printed.err
        assert printed.out == ""
        both = ["--port", "0", "--frame-port", port]
        assert main(["serve", "--checkpoint", str(ended.savepoint), *both]) == 2
        assert f"--frame-port is '{port}'" in capsys.readouterr().err


async def test_the_command_serves_until_it_is_told_to_stop(ended: Ended, tmp_path: Path) -> None:
    """As a process of its own, told by a relative path."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "import sys; from queryable_state.cli import main; sys.exit(main())",
        "serve",
        "--checkpoint",
        str(ended.savepoint.relative_to(tmp_path)),
        "--port",
        "0",
        "--lame-duck",
        "0",
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    async with asyncio.timeout(DEADLINE_S):
        line = (await process.stdout.readline()).decode()
    assert line.startswith(
        f"{ended.savepoint} (job sensors, {ended.job_id}, batch 1) at 127.0.0.1:"
    )
    port = int(line.rpartition(":")[2])
    async with QueryableStateClient("127.0.0.1", port, timeout_s=DEADLINE_S) as client:
        assert (await client.get_kv_state("sensors", "last", "sensor_7")).value() == 7.0
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(DEADLINE_S):
        assert await process.wait() == 0


async def test_a_checkpoint_server_is_serving_until_it_is_told_to_end(ended: Ended) -> None:
    """A balancer takes it out of rotation while it still answers."""
    settings = CheckpointServerSettings(
        checkpoint=str(ended.savepoint), ports="0", frame_ports="0", lame_duck_s=DEADLINE_S
    )
    async with (
        CheckpointServer(settings) as server,
        grpc.aio.insecure_channel(server.address) as channel,
    ):
        watched = Watched(channel)
        await watched.until(SERVING)
        server.shutdown.leave()
        await watched.until(NOT_SERVING)
        stub: Any = query_pb2_grpc.QueryableStateStub(channel)
        asked = query_pb2.GetKvStateRequest(state_name="last", key_json='"sensor_7"')
        assert (await stub.GetKvState(asked, timeout=DEADLINE_S)).value_json == "7.0"
