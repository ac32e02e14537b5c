"""Settings in a task: what the driver checked and pickled is used as it is."""

from __future__ import annotations

import pickle
import sys
from typing import TYPE_CHECKING, Any

from queryable_state.server.security.tls_settings import TlsSettings
from queryable_state.server.state_server.settings import StateServerSettings
from queryable_state.streaming.runtime.states.settings import RuntimeSettings
from queryable_state.streaming.spark.worker.executor import Executor

if TYPE_CHECKING:
    from pathlib import Path

CHECKS = {"__post_init__", "check_relations", "problem_of"}


def test_a_task_does_not_check_the_settings_of_the_driver_again(tmp_path: Path) -> None:
    template = StateServerSettings(
        coordinator_address="driver:6123",
        secret="s",
        executor_id="",
        directory=str(tmp_path),
        tls=TlsSettings(tls="on", tls_certificate=str(tmp_path / "server.pem")),
    )
    sent = pickle.dumps((template, RuntimeSettings()))
    executor = Executor(application_id="app-1", pid=7, start_ticks=9, host="worker-3")
    called: list[str] = []

    def profile(frame: Any, event: str, argument: object) -> None:
        if event == "call":
            called.append(frame.f_code.co_name)

    sys.setprofile(profile)
    try:
        received, runtime = pickle.loads(sent)
        settings = executor.settings(received)
    finally:
        sys.setprofile(None)
    assert not CHECKS & set(called)
    assert runtime == RuntimeSettings()
    assert settings.directory == str(executor.directory(str(tmp_path)))
    assert (settings.executor_id, settings.watched_pid) == (executor.id, 7)
    assert settings == StateServerSettings.from_json(settings.to_json())
    assert (template.executor_id, template.directory) == ("", str(tmp_path))
