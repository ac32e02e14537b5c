"""Factories as users write them, found by their class paths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming import FsStateBackend, StateBackend

if TYPE_CHECKING:
    from collections.abc import Mapping


class FromConfig:
    """Puts checkpoints below what is configured."""

    def create_from_config(self, conf: Mapping[str, Any]) -> StateBackend:
        return FsStateBackend(f"{conf['state.checkpoints.dir']}/custom")


class Nothing:
    """Makes no backend."""

    def create_from_config(self, conf: Mapping[str, Any]) -> None:
        return None


class SmallBuffers:
    """Options on top of a profile."""

    def create_options(self, current: Mapping[str, Any]) -> Mapping[str, Any]:
        assert current["background_jobs"] == 4
        return {"write_buffer_bytes": 1 << 20}


class UnknownOptions:
    """Options RocksDB does not have."""

    def create_options(self, current: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"speed": 11}
