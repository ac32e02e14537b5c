"""Pages of a scan."""

from __future__ import annotations

from typing import Any

from queryable_state.client._reading.states import KvState

Entry = tuple[Any, KvState | None]
"""A key with its state; None with `keys_only`."""

Page = list[Entry]
