"""Entry point of the web process of a driver; it reads its settings from standard input."""

from __future__ import annotations

import sys

from queryable_state.server.cli.serving_process import tune

tune()

if __name__ == "__main__":
    # Imports gRPC.
    from queryable_state.server.web.driver_process import main

    sys.exit(main(sys.stdin.read()))
