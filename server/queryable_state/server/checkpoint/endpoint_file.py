"""The endpoint file: where the driver of a job listens now, and the secret of its calls.

A driver writes it into the state root of each of its jobs and into the checkpoint directory of
the application, so that a proxy finds the driver again after it was started anew. Its content is
a JSON object, `Endpoint`. Whoever reads the file can call the internal ports of the application.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from queryable_state.server.checkpoint.file_systems.storage import MissingFileError, join
from queryable_state.server.checkpoint.layout import ENDPOINT
from queryable_state.wire.addresses import parse_addresses
from queryable_state.wire.errors import CorruptDataError, InvalidRequestError

if TYPE_CHECKING:
    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage

FORMAT_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """How processes of an application reach its driver. Equal for all files of one driver."""

    application: str
    """Id of the application, for people."""

    coordinators: tuple[str, ...]
    """HOST:PORT of the coordinator, as the driver advertises it; at least one."""

    secret: str = field(repr=False)
    """Secret that signs the calls; another one with each start of a driver, unless one is set."""

    written_ms: int = 0
    """When the driver wrote the file, in milliseconds since 1970."""

    tls: bool = False
    """True if the coordinator's port serves TLS."""

    format_version: int = FORMAT_VERSION

    def to_json(self) -> bytes:
        """The content of the file."""
        return json.dumps(asdict(self), indent=2).encode() + b"\n"

    @classmethod
    def from_json(cls, data: bytes, what: str) -> Endpoint:
        """Inverse of `to_json`; ignores fields that it does not know.

        Raises `CorruptDataError` that names `what` if the data is no endpoint or of a later format.
        """
        try:
            values = json.loads(data)
            version = int(values["format_version"])
            if version > FORMAT_VERSION:
                raise CorruptDataError(
                    f"{what} has format version {version}, and this software reads "
                    f"{FORMAT_VERSION}: upgrade this process"
                )
            return cls(
                application=str(values["application"]),
                coordinators=tuple(parse_addresses(values["coordinators"], what)),
                secret=str(values["secret"]),
                written_ms=int(values["written_ms"]),
                tls=bool(values["tls"]),
            )
        except (ValueError, KeyError, TypeError, InvalidRequestError) as problem:
            raise CorruptDataError(
                f"{what} is no endpoint file ({type(problem).__name__}: {problem}): name the state "
                "root of a job, its checkpoint directory, or the file _endpoint in one of them"
            ) from problem


def endpoint_uri(uri: str) -> str:
    """URI of the endpoint file of a folder, or of the file itself."""
    return uri if uri.rstrip("/").endswith(f"/{ENDPOINT}") else join(uri, ENDPOINT)


def read_endpoint(uri: str, storage: CheckpointStorage) -> Endpoint:
    """Reads the endpoint file of a folder, or the file itself.

    Raises `MissingFileError` if there is none, `CorruptDataError` if it cannot be read as one.
    """
    path = endpoint_uri(uri)
    try:
        return Endpoint.from_json(storage.read(path), path)
    except MissingFileError:
        raise MissingFileError(
            f"{path} does not exist: the driver writes it when the job begins its first batch, and "
            "removes it when it ends; check that the job runs, and that this is its state root or "
            "its checkpoint directory"
        ) from None


def write_endpoint(folder: str, storage: CheckpointStorage, endpoint: Endpoint) -> None:
    """Writes the file of a folder atomically; on a local disk only this user can read it."""
    storage.write_private(endpoint_uri(folder), endpoint.to_json())


def remove_endpoint(folder: str, storage: CheckpointStorage, endpoint: Endpoint) -> None:
    """Removes the file of a folder, unless a later driver has written it."""
    try:
        written = read_endpoint(folder, storage)
    except (MissingFileError, CorruptDataError):
        return
    if written == endpoint:
        storage.delete(endpoint_uri(folder))
