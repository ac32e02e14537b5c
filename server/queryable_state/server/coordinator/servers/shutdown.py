"""How the state servers end with their coordinator."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from queryable_state.server.coordinator.servers.leases import Leases
    from queryable_state.server.coordinator.servers.state_server_clients import StateServerClients

_log = logging.getLogger(__name__)


def shutdown_servers(leases: Leases, links: StateServerClients, timeout_s: float) -> None:
    """Tells all state servers to drain and exit, and waits until they have left."""
    # Who does not hear it is gone, or ends by itself when its lease does.
    told = links.shutdown(leases.backend_addresses())
    staying = leases.wait_until_left(told, timeout_s)
    if staying:
        _log.warning("state servers have not left within %g s: %s", timeout_s, ", ".join(staying))
