"""What a task may take and when it gives up."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class RuntimeSettings:
    """Settings of the tasks of all operators of a job."""

    task_timeout_s: float = 60.0
    """How long one step of a task (locate and begin, a fetch, prepare) may wait for a state
    server, retries included, before the task fails."""
    key_bytes: int = 64 * 1024
    """Longest encoded key."""
    value_bytes: int = 4 * 1024 * 1024
    """Longest encoded value, list chunk or map entry."""
    fetch_keys: int = 16_384
    """Most keys of one fetch; more are fetched in several."""
    chunk_rows: int = 65_536
    """Rows whose keys are looked for together: of as many Arrow batches as make so many."""
    map_prefetch_entries: int = 1000
    """Entries of one key's map state fetched at once; a map with more is read entry by entry."""
    output_rows: int = 10_000
    """Rows of one output batch of a function called row by row."""
