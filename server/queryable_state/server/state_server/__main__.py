"""Entry point of a state server process; it reads its settings as JSON from standard input."""

import os
import sys

# gRPC reads this when it is imported; it saves a third of a stream's latency.
os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_client,-event_engine_listener")
# Else it writes a line for each TLS handshake that fails.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

from queryable_state.server.state_server.process import main

if __name__ == "__main__":
    sys.exit(main(sys.stdin.read()))
