"""A blocking client over `fork`, as in servers that load the application before they fork."""

from __future__ import annotations

import subprocess
import sys
import textwrap

PROGRAM = """
    import os, signal
    from queryable_state.client import ClientUnusableError, QueryableStateError
    from queryable_state.client.blocking import QueryableStateClient

    used = QueryableStateClient("127.0.0.1", 1, timeout_s=1)
    unused = QueryableStateClient("127.0.0.1", 1, timeout_s=1)

    def problem(client):
        try:
            client.list_jobs()
        except QueryableStateError as error:
            return type(error).__name__

    print(problem(used), flush=True)
    if os.fork() == 0:
        signal.alarm(20)
        print(problem(used), problem(unused), flush=True)
        used.close()
        print(problem(used), flush=True)
        os._exit(0)
    os.wait()
    print(problem(used), flush=True)
    used.close()
    unused.close()
"""


def test_a_client_of_the_parent_is_refused_at_once_in_the_child() -> None:
    """So is one that is opened there, because gRPC would wait for ever. The parent goes on."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.split("\n") == [
        "NothingListensError",
        "ClientUnusableError ClientUnusableError",
        "ClientClosedError",
        "NothingListensError",
        "",
    ]
