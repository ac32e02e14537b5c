"""Files that are read and written through a gate: `gated:///folder` is `/folder`, but slower."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import fsspec
from fsspec.implementations.local import LocalFileSystem
from tests.waiting import DEADLINE_S

if TYPE_CHECKING:
    from collections.abc import Iterator


class Gate:
    """Open until a part of a path is named; then what reads or writes such a path waits."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._part = ""
        self.waiting = 0

    def close_for(self, part: str) -> None:
        """What reads or writes a path with this part waits from here on."""
        self._part = part
        self._open.clear()

    def open(self) -> None:
        """Lets all go on."""
        self._open.set()

    def pass_by(self, path: str) -> None:
        """Waits while the gate is closed for a path."""
        if self._part and self._part in path and not self._open.is_set():
            self.waiting += 1
            assert self._open.wait(DEADLINE_S), f"the gate was never opened for {path}"
            self.waiting -= 1

    @contextmanager
    def fresh(self) -> Iterator[None]:
        """Open at the start and at the end."""
        self._part = ""
        self.open()
        try:
            yield
        finally:
            self.open()


GATE = Gate()


class GatedFiles(LocalFileSystem):  # type: ignore[misc] # fsspec has no types
    """Local files, read and written when the gate lets them."""

    protocol = "gated"

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, str) and path.startswith("gated://"):
            path = path.removeprefix("gated://")
        return super()._strip_protocol(path)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        GATE.pass_by(path)
        self.makedirs(self._parent(self._strip_protocol(path)), exist_ok=True)
        super().pipe_file(path, value, mode=mode, **kwargs)

    def cat_file(self, path: str, *args: Any, **kwargs: Any) -> Any:
        GATE.pass_by(path)
        return super().cat_file(path, *args, **kwargs)

    def get_file(self, rpath: str, lpath: Any, *args: Any, **kwargs: Any) -> None:
        GATE.pass_by(rpath)
        super().get_file(rpath, lpath, *args, **kwargs)

    def put_file(self, lpath: str, rpath: str, callback: Any = None, **kwargs: Any) -> None:
        GATE.pass_by(rpath)
        self.makedirs(self._parent(self._strip_protocol(rpath)), exist_ok=True)
        super().put_file(lpath, rpath, **kwargs)


fsspec.register_implementation("gated", GatedFiles, clobber=True)
