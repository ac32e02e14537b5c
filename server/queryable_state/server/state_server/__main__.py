"""The process of a state server: settings as JSON on its standard input."""

import os
import sys

# Read by grpc when it is imported; a third off the latency of a stream.
os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_client,-event_engine_listener")

from queryable_state.server.state_server.process import main

if __name__ == "__main__":
    sys.exit(main(sys.stdin.read()))
