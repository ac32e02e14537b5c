"""The packed environment, made once by the commands of the documentation."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.docs.pages import ROOT, blocks, commands

PAGE = ROOT / "deploy" / "spark-submit" / "README.md"


@dataclass(frozen=True)
class Packed:
    """A home directory in which the page's first section has run."""

    home: Path
    seconds: float
    """What it took."""

    @property
    def archive(self) -> Path:
        """The packed environment."""
        return self.home / "qs" / "environment.tar.gz"


@pytest.fixture(scope="session")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    """Runs the first console block of the page, which downloads packages."""
    home = tmp_path_factory.mktemp("home")
    first = next(block for block in blocks(PAGE) if block.language == "console")
    started_s = time.monotonic()
    subprocess.run(
        ["bash", "-euc", "\n".join(commands(first))],
        cwd=ROOT,
        env={"PIP_CACHE_DIR": str(Path.home() / ".cache" / "pip")}
        | os.environ
        | {"HOME": str(home)},
        check=True,
        timeout=400,
    )
    return Packed(home, time.monotonic() - started_s)
