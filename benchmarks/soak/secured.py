"""TLS and tokens for the processes of a run, by environment variables."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.certificates import certificates
from queryable_state.client import Tls
from queryable_state.server.security.access.tokens import digest_of, new_token

if TYPE_CHECKING:
    from pathlib import Path

_PREFIX = "QUERYABLE_STATE_"


@dataclass(frozen=True)
class Caller:
    """What a client needs to be let in."""

    ca: str
    token: str

    @property
    def tls(self) -> Tls:
        """TLS of the client."""
        return Tls(ca=self.ca)


def secure(folder: Path, name: str) -> Caller:
    """Sets variables for the children of this process: TLS on every port, one caller with grants.

    Certificates and access file are written into `folder`.
    """
    tls, token = certificates(folder), new_token()
    access = folder / "access.toml"
    access.write_text(
        f'[tokens]\n{name} = "{digest_of(token)}"\n\n[[grants]]\ncallers = ["{name}"]\n'
        'jobs = ["*"]\nstates = ["*"]\nkinds = ["list", "read", "scan"]\n'
    )
    settings = {
        "tls_certificate": tls.tls_certificate,
        "tls_key": tls.tls_key,
        "tls_ca": tls.tls_ca,
        "access_file": str(access),
        "web_ports": "0",
    }
    os.environ.update({f"{_PREFIX}{name.upper()}": value for name, value in settings.items()})
    return Caller(ca=tls.tls_ca, token=token)
