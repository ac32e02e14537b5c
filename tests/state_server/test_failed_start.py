"""State servers that cannot start: the error comes at once, with the log's end and a remedy."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.waiting import DEADLINE_S

from queryable_state.server.serving.listen_settings import ANY_PORTS
from queryable_state.server.settings.shared_settings import LogSettings
from queryable_state.server.state_server.launch import ensure_server
from queryable_state.server.state_server.settings import StateServerSettings
from queryable_state.wire.errors import InvalidRequestError, RetryLaterError

if TYPE_CHECKING:
    from pathlib import Path


def _settings(directory: Path) -> StateServerSettings:
    return StateServerSettings(
        coordinator_address="127.0.0.1:1",
        secret="s",
        executor_id="e",
        directory=str(directory),
        ports=ANY_PORTS,
        coordinator_timeout_s=0.0,
    )


def _start(directory: Path) -> None:
    ensure_server(directory, _settings(directory), timeout_s=DEADLINE_S)


def test_a_relative_entry_of_the_path_reaches_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of `--py-files`: the entry is relative to the executor's folder, the server has another.

    The module stands for one that only the entry has; the server's log proves that it was loaded.
    """
    (tmp_path / "shipped").mkdir()
    (tmp_path / "shipped" / "sitecustomize.py").write_text(
        "import sys; sys.stderr.write('loaded from py-files\\n')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["./shipped", *sys.path])
    with pytest.raises(RetryLaterError, match="loaded from py-files"):
        _start(tmp_path / "e")


@pytest.mark.parametrize(
    ("package", "content", "shown"),
    [
        ("grpc", "raise ModuleNotFoundError(\"No module named 'grpc'\")", "grpc"),
        ("uvloop", "raise ImportError('libuv.so.1: cannot open shared object')", "libuv.so.1"),
    ],
)
def test_a_missing_package_is_named_at_once_with_the_remedy(
    package: str, content: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / f"{package}.py").write_text(content)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "broken"), *sys.path])
    started_s = time.monotonic()
    with pytest.raises(InvalidRequestError) as refused:
        _start(tmp_path / "e")
    assert time.monotonic() - started_s < DEADLINE_S / 2
    for part in (shown, sys.executable, "--archives", "--py-files", "spark-queryable-state"):
        assert part in str(refused.value)


def test_a_python_that_cannot_run_the_server_is_named_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = tmp_path / "python"
    wrong.write_text("#!/bin/sh\necho 'SyntaxError: invalid syntax' >&2\nexit 1\n")
    wrong.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(wrong))
    with pytest.raises(InvalidRequestError, match="SyntaxError") as refused:
        _start(tmp_path / "e")
    assert f"{wrong} -m queryable_state.server.state_server" in str(refused.value)


def test_a_python_that_is_gone_is_named_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "gone" / "python"))
    with pytest.raises(InvalidRequestError, match="gone/python"):
        _start(tmp_path / "e")


def test_a_folder_that_cannot_be_written_names_the_setting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidRequestError, match=r"spark\.queryable_state\.directory") as refused:
        _start(tmp_path / "file" / "e")
    assert str(tmp_path / "file" / "e") in str(refused.value)


def test_a_server_whose_log_cannot_be_written_says_so_at_once(tmp_path: Path) -> None:
    """The launcher could write its folder, the server's own log goes elsewhere."""

    (tmp_path / "file").touch()
    settings = replace(
        _settings(tmp_path / "e"), logs=LogSettings(log_dir=str(tmp_path / "file" / "logs"))
    )
    with pytest.raises(InvalidRequestError, match=r"Not a directory.*file/logs"):
        ensure_server(tmp_path / "e", settings, timeout_s=DEADLINE_S)


def test_a_coordinator_that_does_not_answer_yet_may_answer_later(tmp_path: Path) -> None:
    with pytest.raises(RetryLaterError, match=r"no coordinator answers at 127\.0\.0\.1:1"):
        _start(tmp_path / "e")
