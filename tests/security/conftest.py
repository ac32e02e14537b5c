"""An authority for the certificates of a test, and another one that nobody trusts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.security.authority import Authority

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "certificates")


@pytest.fixture
def stranger(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "stranger")
