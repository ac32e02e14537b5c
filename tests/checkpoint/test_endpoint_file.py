"""The endpoint file: its bytes, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from queryable_state.server.checkpoint.endpoint_file import Endpoint, read_endpoint
from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.wire.errors import CorruptDataError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "is no endpoint file"),
        (b"[]", "is no endpoint file"),
        (b"{}", "'format_version'"),
        (b'{"format_version": 2}', "upgrade this process"),
        (
            b'{"format_version": 1, "application": "a", "coordinators": [], "secret": "s"}',
            "names no address",
        ),
    ],
)
def test_a_damaged_file_is_refused_without_its_secret(
    tmp_path: Path, content: bytes, text: str
) -> None:
    (tmp_path / "_endpoint").write_bytes(content)
    with pytest.raises(CorruptDataError, match=text):
        read_endpoint(str(tmp_path), storage_of(str(tmp_path)))


def test_the_format_is_pinned(tmp_path: Path) -> None:
    endpoint = Endpoint(
        application="app-1", coordinators=("driver:6123", "[::1]:6123"), secret="s", written_ms=7
    )
    expected: Any = (
        b'{\n  "application": "app-1",\n  "coordinators": [\n    "driver:6123",\n'
        b'    "[::1]:6123"\n  ],\n  "secret": "s",\n  "written_ms": 7,\n  "tls": false,\n'
        b'  "format_version": 1\n}\n'
    )
    assert endpoint.to_json() == expected
    assert Endpoint.from_json(expected, "file") == endpoint
