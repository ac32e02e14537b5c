"""The package of an earlier commit, installed into an environment of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]

PINNED = "a2d4b5c3e4ea28beda90a873c616480bac312858"
"""The commit that stands for the last release while there is no tag of one."""

_OURS = ("spark_queryable_state", "_spark_queryable_state", "queryable_state", "__editable__")


def released() -> str:
    """The newest tag, else the pinned commit; skips the test in a clone without history."""
    for command in (("describe", "--tags", "--abbrev=0"), ("rev-parse", f"{PINNED}^{{commit}}")):
        found = subprocess.run(
            ["git", *command], cwd=REPOSITORY, capture_output=True, text=True, check=False
        )
        if found.returncode == 0:
            return found.stdout.strip()
    pytest.skip(f"this clone has neither a tag nor the commit {PINNED}: fetch the whole history")


def installed(folder: Path) -> Path:
    """Builds the released wheel and installs it; returns the Python that has it.

    The other packages are those of this environment: only ours differs.
    """
    source, environment = folder / "source", folder / "environment"
    source.mkdir(parents=True)
    archive = folder / "source.zip"
    subprocess.run(
        ["git", "archive", "--output", str(archive), released()], cwd=REPOSITORY, check=True
    )
    shutil.unpack_archive(archive, source)
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel"],
        cwd=source,
        check=True,
        capture_output=True,
    )
    [wheel] = (source / "dist").glob("*.whl")
    venv.create(environment, symlinks=True)
    python = environment / "bin" / "python"
    [packages] = environment.glob("lib/python*/site-packages")
    shared = folder / "shared"
    shared.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.startswith(_OURS) and entry.suffix != ".pth":
            (shared / entry.name).symlink_to(entry)
    (packages / "shared.pth").write_text(f"{shared}\n")
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"),
            *("--no-compile", "--target", str(packages), str(wheel)),
        ],
        check=True,
        capture_output=True,
    )
    return python
