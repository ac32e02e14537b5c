"""Arguments shared by several commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from queryable_state.server.checkpoint.file_systems.storage import is_local
from queryable_state.server.json_settings import json_settings
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    import argparse


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


def secret_in(file: str) -> str:
    """The secret in the file of `--secret-file`; raises `InvalidRequestError` if it has none."""
    try:
        secret = Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise InvalidRequestError(f"cannot read --secret-file {file}: {problem}") from problem
    if not secret:
        raise InvalidRequestError(
            f"the file {file} of --secret-file is empty: write the secret into it"
        )
    return secret
