"""Arguments of TLS of commands that connect to servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.wire.security.tls import Tls

if TYPE_CHECKING:
    import argparse


def add_tls(parser: argparse.ArgumentParser) -> None:
    """Adds `--tls` and the arguments of `Tls`."""
    group = parser.add_argument_group("TLS")
    group.add_argument(
        "--tls", action="store_true", help="connect with TLS; so do the options below"
    )
    for name, metavar, meaning in (
        ("ca", "FILE", "authorities that signed the servers' certificates (default: the system's)"),
        ("certificate", "FILE", "certificate of this client, if the servers require one"),
        ("key", "FILE", "key of the certificate, if in another file"),
        ("server-name", "NAME", "name in the servers' certificates (default: their host)"),
    ):
        group.add_argument(f"--tls-{name}", default="", metavar=metavar, help=meaning)


def tls_of(options: argparse.Namespace) -> Tls | None:
    """The values of `add_tls`; None: clear text."""
    tls = Tls(
        ca=options.tls_ca,
        certificate=options.tls_certificate,
        key=options.tls_key,
        server_name=options.tls_server_name,
    )
    return tls if options.tls or tls != Tls() else None
