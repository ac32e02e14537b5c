"""`queryable-state health`: check a server's gRPC health, for probes of containers and units."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from queryable_state.cli.timeout_argument import add_timeout, seconds_of
from queryable_state.server.cli.process_settings import process_settings
from queryable_state.server.serving.ports import PortSpec
from queryable_state.server.settings.proxy_settings import ProxySettings
from queryable_state.wire.addresses import is_loopback, is_wildcard, join_address, parse_address
from queryable_state.wire.security.tls_arguments import add_tls, tls_of

if TYPE_CHECKING:
    from queryable_state.wire.security.tls import Tls

_DEFAULT_PORT = 9069
_TIMEOUT_S = 3.0
_UNHEALTHY = 1


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command's arguments."""
    health = commands.add_parser(
        "health",
        help="check the health of a proxy or server",
        description="Asks one server for its gRPC health (grpc.health.v1), which needs no token. "
        "Exit code 0: it is SERVING, that is, it reaches its coordinator and may get queries; "
        "1: it is not. With --alive a server that answers at all gets 0: a proxy whose driver is "
        "gone must not be restarted, because it finds the next driver by itself. Without an "
        "address it asks the proxy of this machine that the environment configures "
        "(QUERYABLE_STATE_PROXY_PORTS, QUERYABLE_STATE_TLS_CERTIFICATE ...).",
    )
    health.add_argument(
        "address",
        nargs="?",
        default="",
        metavar="HOST:PORT",
        help=f"gRPC port of the server (default: localhost:{_DEFAULT_PORT}, or as configured)",
    )
    health.add_argument("--alive", action="store_true", help="0 also for NOT_SERVING")
    add_timeout(health, _TIMEOUT_S)
    add_tls(health)
    health.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    import grpc
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    from queryable_state.wire.security.connector import Connector
    from queryable_state.wire.security.tls_probe import tls_problem

    timeout_s = seconds_of(options)
    given, tls = options.address, tls_of(options)
    if not given:
        given, tls_of_proxy = _own_proxy()
        tls = tls or tls_of_proxy
    address = join_address(*parse_address(given, "HOST:PORT", _DEFAULT_PORT))
    names = health_pb2.HealthCheckResponse.ServingStatus
    connector = Connector(tls, setting="--tls-{0}")
    with connector.blocking_channel(address, ()) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        try:
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=timeout_s)
        except grpc.RpcError as failure:
            why = f"{address}: {failure.code().name}: {failure.details()}"
            if failure.code() == grpc.StatusCode.UNAVAILABLE:
                why = str(tls_problem(address, connector) or why)
            print(why, file=sys.stderr)
            return _UNHEALTHY
    print(f"{address}: {names.Name(answer.status)}")
    return 0 if options.alive or answer.status == names.Value("SERVING") else _UNHEALTHY


def _own_proxy() -> tuple[str, Tls | None]:
    """Address and TLS of the proxy that this environment configures, which may have flags too."""
    settings = process_settings(ProxySettings, "proxy", argparse.Namespace(config=None))
    is_local = is_wildcard(settings.host) or is_loopback(settings.host)
    host = "localhost" if is_local else settings.host
    port = PortSpec.parse(settings.ports, "QUERYABLE_STATE_PROXY_PORTS").in_order[0]
    return join_address(host, port), settings.tls.tls_for_calls
