"""The effective configuration of an environment: settings, and what its methods have set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.server.settings.environment_settings import EnvironmentSettings
from queryable_state.streaming import Configuration, EmbeddedRocksDBStateBackend
from queryable_state.streaming.execution.environment_options import EnvironmentOptions

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import pytest


class Options(EnvironmentOptions):
    """The options of an environment, without a Spark session."""

    def _default_parallelism(self, most: int) -> int:
        return 1

    def _check_changes(self, fields: Collection[str]) -> None:
        pass

    def _add_files(self, options: Mapping[str, Any]) -> None:
        pass


def test_methods_and_configurations_are_origins_too() -> None:
    options = Options(EnvironmentSettings.load({"spark.queryable_state.lease_ms": "2 s"}, {}))
    options.configure(Configuration().set_string("state.checkpoints.num-retained", "4"))
    options.set_parallelism(3)
    options.enable_checkpointing(5_000)
    options.set_state_backend(EmbeddedRocksDBStateBackend())
    rows = {row.name: row for row in options.effective_configuration() if not row.is_default}
    assert {name: (row.value, row.source) for name, row in rows.items()} == {
        "lease_ms": (2_000, "Spark configuration: spark.queryable_state.lease_ms"),
        "retained_checkpoints": (4, "Configuration: state.checkpoints.num-retained"),
        "parallelism": (3, "code"),
        "checkpoint_interval_ms": (5_000, "code"),
        "backend": ("EmbeddedRocksDBStateBackend", "code"),
    }


def test_the_printed_table_has_no_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    options = Options(EnvironmentSettings(secret="hunter2"))
    options.print_effective_configuration()
    shown = capsys.readouterr().out
    assert "secret" in shown
    assert "hunter2" not in shown
    assert "lease_ms" not in shown
    options.print_effective_configuration(with_defaults=True)
    assert "lease_ms" in capsys.readouterr().out
