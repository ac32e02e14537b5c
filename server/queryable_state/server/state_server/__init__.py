"""The state server: one process per executor that holds state and runs no user code."""

from queryable_state.wire.packaging.extras import require_extra

require_extra("server", "queryable_state.server.state_server")
