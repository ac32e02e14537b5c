"""Arguments of TLS of commands that only call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.wire.security.tls import Tls

if TYPE_CHECKING:
    import argparse


def add_calling_tls(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `Tls`, for a command that only calls."""
    group = parser.add_argument_group("TLS")
    group.add_argument("--tls", action="store_true", help="call with TLS; so do the options below")
    _add_files(group, "certificate of this caller, if the server requires one")


def calling_tls(options: argparse.Namespace) -> Tls | None:
    """The values of `add_calling_tls`; None: clear text."""
    tls = Tls(
        ca=options.tls_ca,
        certificate=options.tls_certificate,
        key=options.tls_key,
        server_name=options.tls_server_name,
    )
    return tls if options.tls or tls != Tls() else None


def _add_files(group: argparse._ArgumentGroup, certificate: str) -> None:
    group.add_argument("--tls-certificate", default="", metavar="FILE", help=certificate)
    group.add_argument(
        "--tls-key", default="", metavar="FILE", help="key of the certificate, if in another file"
    )
    group.add_argument(
        "--tls-ca",
        default="",
        metavar="FILE",
        help="authorities that signed the certificates of the other side (default: the system's)",
    )
    group.add_argument(
        "--tls-server-name",
        default="",
        metavar="NAME",
        help="name in the certificates of the servers that are called (default: their host)",
    )
