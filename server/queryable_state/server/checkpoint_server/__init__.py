"""Server that answers queries from a checkpoint or savepoint, without the job."""

from queryable_state.wire.packaging.extras import require_extra

require_extra("server", "queryable_state.server.checkpoint_server")
