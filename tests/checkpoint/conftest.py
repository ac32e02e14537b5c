"""Storages of every kind; the S3 one talks to a real server on a local port."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from queryable_state.server.checkpoint.file_systems.object_storage import MemoryObjectStore
from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.server.checkpoint.state_root import StateRoot

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage

BUCKET = "states"


@dataclass(frozen=True)
class Place:
    """A storage and a folder of its own in it."""

    uri: str
    options: dict[str, Any] = field(default_factory=dict)
    objects: MemoryObjectStore | None = None

    @property
    def storage(self) -> CheckpointStorage:
        """The storage, made anew: nothing may hang on one object of it."""
        return storage_of(self.uri, self.options, objects=self.objects)

    def root(self, name: str = "job") -> StateRoot:
        """A state root in the folder."""
        return StateRoot(f"{self.uri}/{name}", self.storage)


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """URL of a local S3 server with one bucket."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    client = boto3.client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )
    client.create_bucket(Bucket=BUCKET)
    yield url
    server.stop()


@pytest.fixture
def s3_options(s3_endpoint: str) -> dict[str, Any]:
    """fsspec's options for the local server."""
    return {"endpoint_url": s3_endpoint, "key": "test", "secret": "test"}


@pytest.fixture(params=["local", "file URI", "driver", "s3", "memory", "renaming"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Each kind of storage; "renaming" is fsspec's with files that do not appear at once."""
    name = tmp_path.name
    if request.param == "local":
        return Place(str(tmp_path))
    if request.param == "file URI":
        return Place(tmp_path.as_uri())
    if request.param == "driver":
        return Place(f"driver:/{name}", objects=MemoryObjectStore())
    if request.param == "s3":
        return Place(f"s3a://{BUCKET}/{name}", request.getfixturevalue("s3_options"))
    if request.param == "memory":
        return Place(f"memory://{name}")
    return Place(f"local://{tmp_path}")
