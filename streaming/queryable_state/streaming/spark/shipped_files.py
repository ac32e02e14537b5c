"""Files that Spark ships to each machine with `spark.files`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import SparkFiles

if TYPE_CHECKING:
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
    return replace(
        tls,
        tls_certificate=on_this_machine(tls.tls_certificate),
        tls_key=on_this_machine(tls.tls_key),
        tls_ca=on_this_machine(tls.tls_ca),
    )
