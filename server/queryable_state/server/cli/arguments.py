"""Arguments shared by several commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from queryable_state.server.checkpoint.file_systems.storage import is_local
from queryable_state.server.config.log_settings import LOG_LEVELS
from queryable_state.server.json_settings import json_settings
from queryable_state.server.security.access.access_settings import AccessSettings
from queryable_state.server.serving.advertised import ADVERTISED_HOST_VARIABLE, Advertised
from queryable_state.server.serving.listen_settings import (
    PROXY_FRAME_PORTS,
    PROXY_PORTS,
)
from queryable_state.server.serving.ports import PortSpec, frame_ports
from queryable_state.server.serving.serving_settings import ServingSettings
from queryable_state.wire.addresses import parse_host, parse_port
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    import argparse


def add_listening(parser: argparse.ArgumentParser) -> None:
    """Adds the options of where a process listens, how it serves, and how it ends."""
    parser.add_argument(
        "--port",
        default=PROXY_PORTS,
        metavar="SPEC",
        help="port, range or list: 9069, 9069-9079, 9069-9169/10 (every tenth), 9069,9072; the "
        "first free one is taken; a 0 is any free port (default: %(default)s)",
    )
    parser.add_argument(
        "--frame-port",
        default=PROXY_FRAME_PORTS,
        metavar="SPEC",
        help="port, range or list for look-ups by frames, which are faster than gRPC, at the same "
        "place as the port of --port; if empty, look-ups are unary gRPC calls "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--plain-grpc",
        action="store_true",
        help="serve gRPC with grpc.aio alone: slower, and without undocumented parts of grpcio",
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on; 0.0.0.0: all of IPv4, ::: all (default: %(default)s)",
    )
    parser.add_argument(
        "--advertise",
        default="",
        metavar="HOST[:PORT]",
        help="name or address, and port, at which clients reach this process if it differs from "
        f"--host and --port (default: {ADVERTISED_HOST_VARIABLE}, else --host, or the name of this "
        "machine if that is all addresses)",
    )
    parser.add_argument(
        "--advertise-frame-port",
        type=int,
        default=0,
        metavar="PORT",
        help="frame port at which clients reach this process (default: the one it listens on)",
    )
    parser.add_argument(
        "--lame-duck",
        type=float,
        default=ServingSettings.lame_duck_s,
        metavar="SECONDS",
        help="time to answer after SIGTERM while health is NOT_SERVING; at least the interval of "
        "the load balancer's health checks. SIGINT skips it, a second signal ends at once "
        "(default: %(default)g)",
    )


def add_access(parser: argparse.ArgumentParser) -> None:
    """Adds `--access-file`, the options of JWTs and `--insecure`."""
    parser.add_argument(
        "--access-file",
        default="",
        metavar="FILE",
        help="TOML with tokens, grants and limits; reloaded when it changes. Without it everyone "
        "who reaches the port may read everything",
    )
    parser.add_argument(
        "--jwt-keys",
        default="",
        metavar="FILE_OR_URL",
        help="JWKS or PEM with the public keys of JWTs",
    )
    parser.add_argument("--jwt-issuer", default="", metavar="ISS", help="issuer of JWTs")
    parser.add_argument("--jwt-audience", default="", metavar="AUD", help="audience of JWTs")
    parser.add_argument(
        "--insecure",
        action="store_true",
        help="listen beyond this machine without TLS or without --access-file",
    )


def access_settings(options: argparse.Namespace) -> AccessSettings:
    """The settings of `add_access`."""
    return AccessSettings.from_settings(options)


def check_listening(options: argparse.Namespace) -> None:
    """Raises `InvalidRequestError` for a malformed value of `add_listening`."""
    parse_host(options.host, "--host")
    PortSpec.parse(options.port, "--port")
    frame_ports(options.frame_port, "--frame-port")
    if options.advertise_frame_port:
        parse_port(options.advertise_frame_port, "--advertise-frame-port")
    Advertised.parse(options.advertise, "--advertise")


def lame_duck_s(options: argparse.Namespace) -> float:
    """The value of `--lame-duck`."""
    seconds: float = options.lame_duck
    if not 0 <= seconds < float("inf"):
        raise InvalidRequestError(f"--lame-duck {seconds:g}: give seconds, 0 or more")
    return seconds


def add_log_level(parser: argparse.ArgumentParser) -> None:
    """Adds `--log-level`."""
    parser.add_argument(
        "--log-level",
        choices=LOG_LEVELS,
        default="INFO",
        help="lowest level of the lines logged to standard error (default: %(default)s)",
    )


def add_storage_options(parser: argparse.ArgumentParser) -> None:
    """Adds `--storage-options`."""
    parser.add_argument(
        "--storage-options",
        default="",
        metavar="JSON",
        help="options of the file system of fsspec, as a JSON object: "
        '{"endpoint_url": "http://localhost:9000"} for your own S3 server; other keys and regions '
        "come from where the AWS tools take them",
    )


def storage_options(options: argparse.Namespace) -> dict[str, Any]:
    """The value of `--storage-options`."""
    return json_settings(options.storage_options or "", "--storage-options")


def whole_uri(uri: str) -> str:
    """Makes a relative path absolute; leaves other URIs as they are."""
    if is_local(uri) and not uri.startswith("file:"):
        return str(Path(uri).absolute())
    return uri
