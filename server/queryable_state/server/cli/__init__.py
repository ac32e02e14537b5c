"""Server commands of `queryable-state`: a module a subcommand, each with `add_command`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.cli import (
    checkpoints,
    config,
    health,
    proxy,
    savepoint,
    serve,
    token,
)

if TYPE_CHECKING:
    import argparse


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the commands; none imports grpc or an optional package before it runs."""
    for command in (proxy, health, checkpoints, savepoint, serve, token, config):
        command.add_command(commands)
