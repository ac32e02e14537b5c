"""The client for threads: the names of `queryable_state.client`, each call blocking.

States, listings and errors are those of `queryable_state.client`.
"""

from queryable_state.client.blocking._client import QueryableStateClient
from queryable_state.client.blocking._scan import Scan

__all__ = ["QueryableStateClient", "Scan"]
