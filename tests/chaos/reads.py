"""What the reader wrote down: every answer and every refusal, with its times."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One query of one key, answered or refused."""

    state: str
    key: str
    started: float
    """Seconds since the epoch, before the query was sent."""
    ended: float
    """When it was answered."""
    version: int | None = None
    """The batch it was read at; None where the answer does not say: no value, or refused."""
    value: Any = None
    """As `History` has it; None: the key has no value, or it was refused."""
    server: str = ""
    error: str = ""
    """Class of the refusal; empty: it was answered."""
    message: str = ""

    @property
    def refused(self) -> bool:
        """Whether there was no answer."""
        return bool(self.error)

    def __str__(self) -> str:
        what = f"{self.error}: {self.message}" if self.refused else f"{self.value}"
        at = "" if self.version is None else f" at batch {self.version} of {self.server}"
        return f"{self.state}[{self.key}] asked {self.started:.3f}-{self.ended:.3f}{at}: {what}"


def to_lines(reads: Iterable[Read]) -> str:
    """Reads as lines of JSON."""
    return "".join(
        json.dumps(
            [
                read.state,
                read.key,
                round(read.started, 6),
                round(read.ended, 6),
                read.version,
                read.value,
                read.server,
                read.error,
                read.message,
            ]
        )
        + "\n"
        for read in reads
    )


def read_file(path: Path) -> Iterator[Read]:
    """The reads of a file; a last line that was cut by the reader's end is left out."""
    with path.open() as lines:
        for line in lines:
            if not line.endswith("\n"):
                return
            state, key, started, ended, version, value, server, error, message = json.loads(line)
            yield Read(
                state=state,
                key=key,
                started=started,
                ended=ended,
                version=version,
                value=value,
                server=server,
                error=error,
                message=message,
            )
