"""Files that Spark ships to each machine with `spark.files`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import SparkFiles

if TYPE_CHECKING:
    from queryable_state.server.security.access.access_settings import AccessSettings
    from queryable_state.server.security.tls_settings import TlsSettings


def on_this_machine(path: str) -> str:
    """The absolute path of a setting's file on this machine.

    A relative path is one in the working directory, or else the name of a shipped file. A file that
    is not found keeps its path, for the error of the process that reads it.
    """
    if not path or Path(path).is_absolute():
        return path
    for found in (Path(path).absolute(), Path(SparkFiles.get(path))):
        if found.exists():
            return str(found)
    return path


def tls_on_this_machine(tls: TlsSettings) -> TlsSettings:
    """The settings with the paths of this machine; in the driver or a task."""
    if not tls.uses_tls:
        return tls
    return tls.completed(
        tls_certificate=on_this_machine(tls.tls_certificate),
        tls_key=on_this_machine(tls.tls_key),
        tls_ca=on_this_machine(tls.tls_ca),
    )


def access_on_this_machine(access: AccessSettings) -> AccessSettings:
    """The settings with the paths of this machine; a URL of keys stays as it is."""
    keys = access.jwt_keys
    return access.completed(
        access_file=on_this_machine(access.access_file),
        jwt_keys=keys if "://" in keys else on_this_machine(keys),
    )
