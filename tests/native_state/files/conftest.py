"""The checkpoints of `fixtures`, which Spark wrote: each is unpacked where a test can change it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.native_state.archives import unpack

if TYPE_CHECKING:
    from collections.abc import Callable

FIXTURES = Path(__file__).parent / "fixtures"
ALL_NAMES = sorted(path.name.removesuffix(".tar.xz") for path in FIXTURES.glob("*.tar.xz"))
EARLIER = [name for name in ALL_NAMES if name.startswith("spark-")]
NAMES = [name for name in ALL_NAMES if name not in EARLIER]
WITH_DELTAS = [name for name in NAMES if "zips" not in name]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Callable[[str], Path]:
    """Unpacks a fixture by name and returns its folder."""

    def unpacked(name: str) -> Path:
        folder = tmp_path / name
        unpack(FIXTURES / f"{name}.tar.xz", folder)
        return folder

    return unpacked
