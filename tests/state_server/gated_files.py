"""A file system whose writes wait at a gate: `gated:///folder` is `/folder`, only slower."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

if TYPE_CHECKING:
    from collections.abc import Iterator

DEADLINE_S = 20.0


class Gate:
    """Open until a part of a path is named; then what writes such a path waits."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._part = ""
        self.waiting = 0

    def close_for(self, part: str) -> None:
        """Writes of paths with this part wait from here on."""
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
    """Local files, written when the gate lets them."""

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

    def put_file(self, lpath: str, rpath: str, callback: Any = None, **kwargs: Any) -> None:
        GATE.pass_by(rpath)
        self.makedirs(self._parent(self._strip_protocol(rpath)), exist_ok=True)
        super().put_file(lpath, rpath, **kwargs)


fsspec.register_implementation("gated", GatedFiles, clobber=True)
