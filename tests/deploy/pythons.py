"""Pythons of executors for tests of shipped packages."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path


def python_without(folder: Path, *names: str, broken: str = "") -> str:
    """A Python with this one's packages, but without this project's and those whose names begin
    with one of `names`; returns its path. The import of `broken` fails as that of a module that
    was compiled for another system."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    purelib = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    if broken:
        names = (*names, broken)
        failing = "raise ImportError('libbroken.so.1: cannot open shared object file')\n"
        (Path(purelib) / f"{broken}.py").write_text(failing)
    left_out = ("spark_queryable_state", "_spark_queryable_state", "_editable", *names)
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.startswith(left_out):
            (Path(purelib) / entry.name).symlink_to(entry)
    return str(python)
