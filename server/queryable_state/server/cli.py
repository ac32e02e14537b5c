"""The command `queryable-state`."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from queryable_state.server.ports import PortSpec
from queryable_state.server.settings import COORDINATOR_PORT, PROXY_PORT, ProxySettings
from queryable_state.wire.errors import InvalidRequestError, QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Sequence

SECRET_VARIABLE = "QUERYABLE_STATE_SECRET"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; answers the exit code: 0, or 2 for what the caller can put right."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    try:
        settings = _proxy_settings(options)
        _tune()
        return _run_proxy(settings)
    except QueryableStateError as error:
        print(f"queryable-state: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="queryable-state", description="Serves the keyed state of running PySpark jobs."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    proxy = commands.add_parser(
        "proxy",
        help="run a proxy of its own",
        description="Answers queries for all state of one application, from the servers that own "
        f"it. The secret of the job comes from --secret-file, or from {SECRET_VARIABLE}.",
    )
    proxy.add_argument(
        "--coordinator",
        required=True,
        metavar="HOST:PORT",
        help=f"coordinator in the driver of the job; its port is {COORDINATOR_PORT} unless taken",
    )
    proxy.add_argument(
        "--port",
        default=str(PROXY_PORT),
        metavar="SPEC",
        help="port, range or list: 9069, 9069-9079, 9069,9072; then any free one "
        "(default: %(default)s)",
    )
    proxy.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: %(default)s)"
    )
    proxy.add_argument("--secret-file", metavar="FILE", help="file that holds the job's secret")
    return parser


def _proxy_settings(options: argparse.Namespace) -> ProxySettings:
    host, colon, port = options.coordinator.rpartition(":")
    if not colon or not host or not port.isdigit():
        raise InvalidRequestError(
            f"--coordinator {options.coordinator!r}: write HOST:PORT, "
            f"as in 127.0.0.1:{COORDINATOR_PORT}"
        )
    PortSpec.parse(options.port, "--port")
    return ProxySettings(
        coordinator_address=options.coordinator,
        secret=_secret(options.secret_file),
        host=options.host,
        ports=options.port,
    )


def _secret(file: str | None) -> str:
    if file is None:
        secret = os.environ.get(SECRET_VARIABLE, "")
    else:
        try:
            secret = Path(file).read_text()
        except (OSError, UnicodeDecodeError) as problem:
            raise InvalidRequestError(
                f"--secret-file {file}: cannot be read: {problem}"
            ) from problem
    secret = secret.strip()
    if not secret:
        where = f"the file {file} is empty" if file else f"{SECRET_VARIABLE} is not set"
        raise InvalidRequestError(
            f"a proxy needs the job's secret: {where}; give --secret-file or set {SECRET_VARIABLE}"
        )
    return secret


def _tune() -> None:
    # gRPC reads it when it is first imported, which nothing before this has done. Measured: 30 to
    # 40 % off the latency of single queries.
    os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_client,-event_engine_listener")


def _run_proxy(settings: ProxySettings) -> int:
    import uvloop

    from queryable_state.server.query.proxy_server import ProxyServer

    async def serve() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(name, stop.set)
        async with ProxyServer(settings, stop=stop) as proxy:
            # For whoever started it; the log says it, too.
            print(f"proxy at {proxy.address}", flush=True)
            gc.collect()
            gc.freeze()
            gc.set_threshold(100_000, 50, 1000)
            await proxy.wait_stopped()

    uvloop.run(serve())
    return 0
