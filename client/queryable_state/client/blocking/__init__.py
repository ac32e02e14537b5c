"""Blocking client for threads, with the same calls as `queryable_state.client`.

States, listings and errors are those of `queryable_state.client`.
"""

from queryable_state.client.blocking._client import QueryableStateClient
from queryable_state.client.blocking._scan import Scan
from queryable_state.client.blocking._watch import Watch

__all__ = ["QueryableStateClient", "Scan", "Watch"]
