"""The argument `--timeout` of all commands that wait for an answer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    import argparse


def add_timeout(parser: argparse.ArgumentParser, default_s: float) -> None:
    """Adds `--timeout`, in seconds."""
    parser.add_argument(
        "--timeout",
        type=float,
        default=default_s,
        metavar="SECONDS",
        help="give up after this time (default: %(default)g)",
    )


def seconds_of(options: argparse.Namespace) -> float:
    """The value of `add_timeout`; raises `InvalidRequestError` unless above 0 and finite."""
    seconds: float = options.timeout
    if not 0 < seconds < math.inf:
        raise InvalidRequestError(f"--timeout {seconds:g} is invalid: use seconds above 0")
    return seconds
