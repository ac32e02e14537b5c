"""Arguments shared by several commands."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from queryable_state.server.checkpoint.file_systems.storage import is_local
from queryable_state.server.config import secret_file
from queryable_state.server.json_settings import json_settings
from queryable_state.server.serving.listen_settings import COORDINATOR_PORT
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    import argparse


def coordinator_address(given: str) -> str:
    """The value of `--coordinator`; raises InvalidRequestError unless it is HOST:PORT."""
    host, colon, port = given.rpartition(":")
    if not colon or not host or not port.isdigit():
        raise InvalidRequestError(
            f"--coordinator {given!r}: write HOST:PORT, as in 127.0.0.1:{COORDINATOR_PORT}"
        )
    return given


def secret_of(file: str | None) -> str:
    """The job's secret from the file of `--secret-file`, else from the environment."""
    return secret_file.secret_of(file or "", os.environ.get(secret_file.SECRET_VARIABLE, ""))


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
