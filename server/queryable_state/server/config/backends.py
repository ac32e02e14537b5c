"""The storage backends of state servers."""

from __future__ import annotations

from typing import Literal

Backend = Literal["heap", "rocksdb"]
BACKENDS: tuple[Backend, ...] = ("heap", "rocksdb")
