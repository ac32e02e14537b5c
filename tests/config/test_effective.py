"""The effective configuration: values, origins, masked secrets; the command `config`."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING

import pytest

from queryable_state.cli import main
from queryable_state.cli.exit_codes import CONFIGURATION
from queryable_state.server.config.effective import (
    as_toml,
    effective_settings,
    sources_text,
)
from queryable_state.server.settings.environment_settings import EnvironmentSettings
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_CONF_DIR", "SPARK_HOME", "QUERYABLE_STATE_SECRET"):
        monkeypatch.delenv(name, raising=False)


def test_every_setting_is_there_once_with_its_place() -> None:
    rows = {row.name: row for row in effective_settings(EnvironmentSettings(lease_ms=2_000))}
    assert rows["lease_ms"].source == "code"
    assert rows["lease_margin_ms"].source == "default"
    assert len(rows) == len(effective_settings(EnvironmentSettings()))
    assert "origins" not in rows


def test_secrets_are_masked_also_in_maps_and_addresses() -> None:
    settings = EnvironmentSettings(
        secret="hunter2",
        storage_options={"key": "hunter2", "anon": False},
        checkpoint_directory="s3://user:hunter2@bucket/path",
    )
    rows = effective_settings(settings)
    assert "hunter2" not in as_toml(rows)
    shown = {row.name: row.value for row in rows}
    assert shown["storage_options"] == {"key": "***", "anon": "***"}
    assert shown["checkpoint_directory"] == "s3://***@bucket/path"
    assert shown["secret"] == "***"


def test_the_toml_gives_the_same_configuration(tmp_path: Path) -> None:
    settings = EnvironmentSettings(lease_ms=2_000, restart_strategy="none", task_timeout_s=61.5)
    file = tmp_path / "settings.toml"
    file.write_text(as_toml(effective_settings(settings)))
    assert EnvironmentSettings.load({"spark.queryable_state.config": str(file)}, {}) == settings


def test_the_summary_counts_the_settings_of_each_place() -> None:
    settings = EnvironmentSettings.load(
        {"spark.queryable_state.lease_ms": "2 s", "parallelism.default": "2"},
        {"QUERYABLE_STATE_LOG_LEVEL": "DEBUG"},
    )
    summary = sources_text(effective_settings(settings))
    assert summary == "2 from Spark configuration, 1 from environment"
    assert sources_text(effective_settings(EnvironmentSettings())) == "all defaults"


def test_the_command_shows_what_differs_from_the_defaults(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('[queryable_state]\nlease_ms = "3 s"\nsecret = "hunter2"\n')
    properties = tmp_path / "spark-defaults.conf"
    properties.write_text("# defaults\nspark.queryable_state.batch_keys   7\n")
    monkeypatch.setenv("QUERYABLE_STATE_LOG_LEVEL", "DEBUG")
    arguments = ["config", "application", "--config", str(file), "--properties-file"]
    arguments += [str(properties), "--conf", "state.backend=rocksdb"]
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split(maxsplit=1)[0] for line in lines] == [
        "backend",
        "batch_keys",
        "lease_ms",
        "log_level",
        "secret",
    ]
    assert f"{properties}, line 2: spark.queryable_state.batch_keys" in lines[1]
    assert f"file {file}, line 2" in lines[2]
    assert "environment: QUERYABLE_STATE_LOG_LEVEL" in lines[3]
    assert "hunter2" not in "".join(lines)
    assert main([*arguments, "--json", "--all"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["backend"]["key"] == "state.backend"
    assert rows["lease_ms"]["value"] == 3000
    assert rows["lease_margin_ms"]["place"] == "default"


@pytest.fixture
def secret_file(tmp_path: Path) -> str:
    path = tmp_path / "job.secret"
    path.write_text("s" * 32)
    return str(path)


def test_the_command_shows_a_proxys_settings_as_its_file(
    secret_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["config", "proxy", "--coordinator", "driver", "--key-bytes", "1 kb", "--toml"]
    assert main([*arguments, "--secret-file", secret_file]) == 0
    shown = capsys.readouterr().out
    assert "# flag: --coordinator" in shown
    table = tomllib.loads(shown)["queryable_state"]
    assert table == {"coordinator": ["driver"], "key_bytes": 1024, "secret_file": secret_file}


def test_the_command_refuses_what_a_process_would_refuse(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["config", "application", "--conf", "spark.queryable_state.lease_ms=-5"]) == 2
    assert "lease_ms is -5 (Spark configuration): it must be" in capsys.readouterr().err
    assert main(["config", "serve"]) == 2
    assert "neither checkpoint nor spark_checkpoint is set" in capsys.readouterr().err
    assert main(["config", "application"]) == 0
    assert "have their defaults" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--coordinator", ""], "give --endpoint"),
        (["--secret-file", "/no/such"], "cannot read --secret-file /no/such"),
        (["--host", "0.0.0.0"], "the proxy port would listen on 0.0.0.0"),
        (["--access-file", "/no/such"], "cannot read the access file /no/such"),
        (["--tls-certificate", "/no/such"], "cannot read /no/such"),
        (["--port", "9069", "--frame-port", "9069"], "needs a port of its own"),
    ],
)
def test_the_command_refuses_a_proxy_that_could_not_start(
    flags: list[str], problem: str, secret_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    process = ["proxy", "--coordinator", "127.0.0.1:1", "--secret-file", secret_file]
    assert main(["config", *process]) == 0
    if flags[0] == "--coordinator":
        process = ["proxy"]
    capsys.readouterr()
    assert main(["config", *process, *flags]) == 2
    shown = capsys.readouterr().err
    assert problem in shown
    assert main([*process, *flags]) == CONFIGURATION
    assert capsys.readouterr().err == shown


def test_the_command_refuses_a_checkpoint_server_that_could_not_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    access = tmp_path / "access.toml"
    access.write_text("[token]")
    process = ["serve", "--checkpoint", "s3://none/of/it"]
    assert main(["config", *process]) == 0
    for flags, problem in (
        (["--access-file", str(access)], "did you mean 'tokens'"),
        (["--host", "::"], "the checkpoint server port would listen on ::"),
        (["--advertise", "0.0.0.0"], "stands for all addresses"),
    ):
        assert main(["config", *process, *flags]) == 2
        assert problem in capsys.readouterr().err


def test_two_listeners_of_a_state_server_have_no_port_in_common() -> None:
    with pytest.raises(InvalidRequestError, match=r"server_ports is '9067'.*task_ports is '9067'"):
        EnvironmentSettings(server_ports="9067", task_ports="9067")
    EnvironmentSettings(server_ports="9067-9068", task_ports="9067-9068", server_frame_ports="")
