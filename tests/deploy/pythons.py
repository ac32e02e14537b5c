"""Pythons of executors for tests of shipped packages."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path


def python_without(folder: Path, *names: str) -> str:
    """A Python with this one's packages, but without this project's and those whose names begin
    with one of `names`; returns its path."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    purelib = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    left_out = ("spark_queryable_state", "_spark_queryable_state", "_editable", *names)
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.startswith(left_out):
            (Path(purelib) / entry.name).symlink_to(entry)
    return str(python)
