"""Server commands, which need the extra `server` to run."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING

from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.packaging.extras import require_extra

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the server commands.

    They are imported by name, because the client package must not depend on the server. The command
    modules load with the base install; running a command needs the extra.
    """
    known = set(commands.choices)
    import_module("queryable_state.server.cli").add_commands(commands)
    for name, parser in commands.choices.items():
        if name not in known:
            parser.set_defaults(run=_with_extra(name, parser.get_default("run")))


def _with_extra(
    name: str, run: Callable[[argparse.Namespace], int]
) -> Callable[[argparse.Namespace], int]:
    def run_or_name_the_extra(options: argparse.Namespace) -> int:
        logging.basicConfig(
            level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
        )
        try:
            require_extra("server", name)
        except ModuleNotFoundError as missing:
            raise InvalidRequestError(str(missing)) from None
        return run(options)

    return run_or_name_the_extra
