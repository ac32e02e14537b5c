"""Server of the state that Spark keeps itself, from the checkpoint of any streaming query."""

from queryable_state.wire.packaging.extras import require_extra

require_extra("server", "queryable_state.server.native_state")
