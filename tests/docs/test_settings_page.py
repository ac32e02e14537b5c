"""docs/settings.md and the classes it is generated from."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.docs.pages import ROOT

from queryable_state.cli import parser
from queryable_state.server.settings.checkpoint_server_settings import CheckpointServerSettings
from queryable_state.server.settings.proxy_settings import ProxySettings

if TYPE_CHECKING:
    from types import ModuleType

SCRIPT = ROOT / "scripts" / "generate_settings_docs.py"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_settings_docs", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPT.parent))
        spec.loader.exec_module(module)
    return module


def test_the_page_is_current() -> None:
    """And the check names the command that writes it."""
    checked = subprocess.run(
        [sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr


def test_a_difference_names_the_command_that_fixes_it(
    generator: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(generator, "PAGE", ROOT / "docs" / "order.md")
    monkeypatch.setattr(sys, "argv", ["generate_settings_docs.py", "--check"])
    assert generator.main() == 1
    assert "make settings-docs" in capsys.readouterr().err


def test_every_field_has_a_meaning(generator: ModuleType) -> None:
    """A field without a docstring would have an empty row."""
    empty = re.findall(r"^\| `(\S+)`.*\|  \|$", generator.page(), re.MULTILINE)
    assert not empty


def test_flags_exist(generator: ModuleType) -> None:
    """The keys of the stand-alone processes are flags of their commands."""
    for command, flags in (
        ("proxy", generator.flags_of(ProxySettings)),
        ("serve", generator.flags_of(CheckpointServerSettings)),
    ):
        with pytest.raises(SystemExit):
            parser().parse_args([command, "--no-such-flag"])
        (commands,) = (action for action in parser()._actions if action.choices)
        assert commands.choices is not None
        known = commands.choices[command]._option_string_actions  # type: ignore[index]
        of_page = {flag for text in flags.values() for flag in re.findall(r"--[\w-]+", text)}
        assert of_page
        assert of_page <= set(known)
