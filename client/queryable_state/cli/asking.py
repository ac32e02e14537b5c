"""Asking with a client of its own, closed when the command ends.

This is where grpc is imported: commands import it when they run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.cli.arguments import seconds_of, server_of
from queryable_state.cli.shown_state import ShownState
from queryable_state.client import QueryableStateClient

if TYPE_CHECKING:
    import argparse


async def answer(options: argparse.Namespace) -> int:
    """Asks the command's question of the server that is named; answers the exit code."""
    host, port = server_of(options)
    async with QueryableStateClient(host, port, timeout_s=seconds_of(options)) as client:
        exit_code: int
        if options.of_state:
            # Its types say how words are read and values shown.
            state = await client.describe_state(options.job, options.state)
            exit_code = await options.operation(options, client, ShownState(state))
        else:
            exit_code = await options.operation(options, client)
        return exit_code
