"""Checkpoints that Spark wrote, with the answers of its own state reader.

Those of `tests/native_state/fixtures` are archives; `programs` writes them and larger ones.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.native_state.archives import unpack

ARCHIVES = Path(__file__).parent.parent / "fixtures"
WRITTEN = os.environ.get("QUERYABLE_STATE_NATIVE_FIXTURES", "")
"""A folder with fixtures as `programs` writes them, to check in place of the archives."""


@dataclass(frozen=True)
class SparkFixture:
    """One checkpoint and what Spark says of it."""

    folder: Path

    @property
    def checkpoint(self) -> str:
        """The checkpoint location."""
        return str(self.folder / "checkpoint")

    @property
    def about(self) -> dict[str, Any]:
        """`query.json`: settings, operators, batches, schemas of the answers."""
        content: dict[str, Any] = json.loads((self.folder / "query.json").read_text())
        return content

    def operators(self) -> set[int]:
        """The operators with states."""
        return {int(name.partition(".")[0]) for name in self.about["expected"]}

    def states(self) -> list[str]:
        """Names of the answers for the newest batch, as `0.default`."""
        return sorted(self.about["expected"])

    def batches(self) -> list[int]:
        """Batches for which Spark answered each of the states, ascending."""
        return [
            batch
            for batch in self.about["batches"]
            if all(self._file(name, batch).exists() for name in self.states())
        ]

    def answers(self, state: str, batch: int) -> list[dict[str, Any]]:
        """The rows of Spark's reader."""
        lines = self._file(state, batch).read_text().splitlines()
        return [json.loads(line) for line in lines]

    def _file(self, state: str, batch: int) -> Path:
        newest = batch == self.about["batches"][-1]
        return self.folder / "expected" / f"{state}{'' if newest else f'@{batch}'}.jsonl"


def names() -> list[str]:
    """All fixtures there are."""
    if WRITTEN:
        return sorted(path.parent.name for path in Path(WRITTEN).glob("*/query.json"))
    return sorted(path.name.removesuffix(".tar.xz") for path in ARCHIVES.glob("*.tar.xz"))


def unpacked(name: str, folder: Path) -> SparkFixture:
    """The fixture, below `folder` if it comes from an archive."""
    if WRITTEN:
        return SparkFixture(Path(WRITTEN) / name)
    unpack(ARCHIVES / f"{name}.tar.xz", folder)
    return SparkFixture(folder / name)
