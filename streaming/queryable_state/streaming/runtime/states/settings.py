"""Limits and timeouts of tasks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class RuntimeSettings:
    """Settings of the tasks of a job."""

    task_timeout_s: float = 60.0
    """How long one step of a task (locate and begin, a fetch, prepare) may wait for a state
    server, including retries, before the task fails."""
    key_bytes: int = 64 * 1024
    """Maximum bytes of an encoded key."""
    value_bytes: int = 4 * 1024 * 1024
    """Maximum bytes of an encoded value, list chunk or map entry."""
    fetch_keys: int = 16_384
    """Maximum keys of one fetch call."""
    chunk_rows: int = 65_536
    """Rows per chunk. State is fetched once per chunk; small Arrow batches are coalesced."""
    map_prefetch_entries: int = 1000
    """Entries of a key's map state to prefetch; larger maps are read entry by entry."""
    output_rows: int = 10_000
    """Maximum rows of an output batch of a row-by-row function."""
