"""Number of open watches of one port, limited in total and for each connection."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

from queryable_state.wire.errors import Reason, RetryLaterError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.server.query.router import ServiceInfo

# A connection has room for 1,024 calls. The others are for its look-ups and scans.
_MOST_OF_A_CLIENT = 512
_MOST_OF_A_PROXY = 960

_RETRY_MS = 1_000


class OpenWatches:
    """Counts the open watches of one port."""

    def __init__(self, info: ServiceInfo) -> None:
        self._info = info
        self._by_peer: Counter[str] = Counter()

    @contextmanager
    def watch(self, peer: str, *, by_proxy: bool) -> Iterator[None]:
        """Counts a watch while the block lasts; raises `RetryLaterError` at a limit."""
        most = _MOST_OF_A_PROXY if by_proxy else _MOST_OF_A_CLIENT
        if self._by_peer[peer] >= most:
            raise self._refusal(
                f"this connection has {most} open watches, which is the limit: watch several keys "
                "or a prefix in one watch, or open another client"
            )
        if self._by_peer.total() >= self._info.limits.watches:
            raise self._refusal(
                f"server {self._info.server_id} has {self._info.limits.watches:,} open watches, "
                "which is its limit (spark.queryable_state.watches): share watches, or use another "
                "server"
            )
        self._by_peer[peer] += 1
        try:
            yield
        finally:
            self._by_peer[peer] -= 1
            if not self._by_peer[peer]:
                del self._by_peer[peer]

    @staticmethod
    def _refusal(text: str) -> RetryLaterError:
        return RetryLaterError(text, reason=Reason.OVERLOADED, retry_after_ms=_RETRY_MS)
