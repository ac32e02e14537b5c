"""Limits and timeouts of tasks."""

from __future__ import annotations

from dataclasses import dataclass

from queryable_state.server.config.limits import RecordLimits
from queryable_state.server.config.setting import setting
from queryable_state.server.settings.shared_settings import TaskSettings


@dataclass(frozen=True, kw_only=True)
class RuntimeSettings(TaskSettings, RecordLimits):
    """Settings of the tasks of a job."""

    fetch_keys: int = setting(16_384, least=1, most=10_000_000)
    """Maximum keys of one fetch call."""
    chunk_rows: int = setting(65_536, least=1, most=100_000_000)
    """Rows per chunk. State is fetched once per chunk; small Arrow batches are coalesced."""
    map_prefetch_entries: int = setting(1000, least=0, most=10_000_000)
    """Entries of a key's map state to prefetch; larger maps are read entry by entry."""
    output_rows: int = setting(10_000, least=1, most=100_000_000)
    """Maximum rows of an output batch of a row-by-row function."""
