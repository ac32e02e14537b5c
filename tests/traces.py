"""The path of a call through the product: its files, its calls, and its changes of file."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_PACKAGE = "/queryable_state/"
_GENERATED = ("_pb2.py", "_pb2_grpc.py")


@dataclass
class CallPath:
    """Calls of the product's functions, in their order."""

    calls: list[tuple[str, str]] = field(default_factory=list)
    """File below the package and function."""

    @property
    def files(self) -> list[str]:
        """Every file that is entered, in the order of its first call."""
        return list(dict.fromkeys(file for file, _ in self.calls))

    @property
    def changes(self) -> int:
        """How often a call is in another file than the one before."""
        return sum(
            one[0] != other[0] for one, other in zip(self.calls, self.calls[1:], strict=False)
        )

    def below(self, folder: str) -> CallPath:
        """The calls of the functions below a folder of the package."""
        return CallPath([each for each in self.calls if each[0].startswith(folder)])

    def __str__(self) -> str:
        counts = f"{len(self.files)} files, {len(self.calls)} calls, {self.changes} changes of file"
        lines = [counts]
        for at, (file, function) in enumerate(self.calls):
            is_other = not at or self.calls[at - 1][0] != file
            lines.append(f"  {file if is_other else '':<60} {function}")
        return "\n".join(lines)


@contextmanager
def recorded() -> Iterator[CallPath]:
    """Records the calls of this thread until the block ends."""
    path = CallPath()
    before = sys.getprofile()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        file = frame.f_code.co_filename
        if _PACKAGE in file and not file.endswith(_GENERATED):
            path.calls.append((file.rpartition(_PACKAGE)[2], frame.f_code.co_qualname))

    sys.setprofile(note)
    try:
        yield path
    finally:
        sys.setprofile(before)
