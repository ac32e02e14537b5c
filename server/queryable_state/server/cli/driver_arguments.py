"""Arguments of commands that call the driver of a job: its addresses and its secret."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from queryable_state.server.cli.arguments import secret_in, whole_uri
from queryable_state.server.serving.listen_settings import COORDINATOR_PORT
from queryable_state.wire.addresses import parse_addresses
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection

SECRET_VARIABLE = "QUERYABLE_STATE_SECRET"


def add_driver(parser: argparse.ArgumentParser) -> None:
    """Adds `--endpoint`, `--coordinator` and `--secret-file`."""
    parser.add_argument(
        "--endpoint",
        default="",
        metavar="URI",
        help="state root of a job, its checkpoint directory, or the file _endpoint in one of them: "
        "the driver has written there where it listens, and its secret",
    )
    parser.add_argument(
        "--coordinator",
        action="append",
        metavar="HOST[:PORT]",
        help="coordinator in the driver of the job; several addresses with commas between, or the "
        f"option several times (default port: {COORDINATOR_PORT}; default: that of --endpoint)",
    )
    parser.add_argument(
        "--secret-file",
        metavar="FILE",
        help=f"file with the job's secret (default: {SECRET_VARIABLE}, or that of --endpoint)",
    )


def coordinators_of(options: argparse.Namespace) -> tuple[str, ...]:
    """HOST:PORT of each `--coordinator`; may be empty only with `--endpoint`."""
    return coordinator_addresses(options.coordinator or (), options.endpoint)


def coordinator_addresses(given: Collection[str], endpoint: str) -> tuple[str, ...]:
    """HOST:PORT of each address of a coordinator; may be empty only with an `endpoint`."""
    if given:
        return tuple(parse_addresses(given, "--coordinator", COORDINATOR_PORT))
    if not endpoint:
        raise InvalidRequestError(
            "the command needs the driver of a job: give --endpoint with the job's state root, or "
            f"--coordinator HOST:PORT, as in 127.0.0.1:{COORDINATOR_PORT}"
        )
    return ()


def endpoint_of(options: argparse.Namespace) -> str:
    """The value of `--endpoint` as an absolute URI; empty if it is not given."""
    return whole_uri(options.endpoint) if options.endpoint else ""


def secret_of(file: str | None, *, required: bool = True, default: str | None = None) -> str:
    """The job's secret from the file of `--secret-file`, else `default` or from the environment.

    Raises `InvalidRequestError` if there is none and it is `required`.
    """
    if file is not None:
        return secret_in(file)
    secret = (os.environ.get(SECRET_VARIABLE, "") if default is None else default).strip()
    if not secret and required:
        raise InvalidRequestError(
            f"the command needs the job's secret: {SECRET_VARIABLE} is not set; give --endpoint or "
            f"--secret-file, or set {SECRET_VARIABLE}"
        )
    return secret
