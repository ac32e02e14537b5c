"""All REST paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.web.api.paths import (
    hot_keys,
    jobs,
    look_ups,
    savepoints,
    scans,
    sizes,
    status,
    watches,
)

if TYPE_CHECKING:
    from queryable_state.server.web.api.route import Route

ROUTES: tuple[Route, ...] = (
    *jobs.ROUTES,
    *status.ROUTES,
    *look_ups.ROUTES,
    *scans.ROUTES,
    *sizes.ROUTES,
    *watches.ROUTES,
    *hot_keys.ROUTES,
    *savepoints.ROUTES,
)
"""The paths that answer in JSON for callers."""
