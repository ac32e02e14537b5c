"""Format of small files with one protobuf message: metadata, manifests, registrations.

    magic "SQCM" | u16 format version | u32 CRC-32 of the message | u32 its length | its bytes

All numbers are little-endian. Nothing follows the message.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import DecodeError

from queryable_state.wire.errors import CorruptDataError

if TYPE_CHECKING:
    from google.protobuf.message import Message

MAGIC = b"SQCM"
FORMAT_VERSION = 1

MESSAGE_VERSION = 1
"""`format_version` of the messages: the meaning of their fields."""

_HEAD = struct.Struct("<4sHII")

M = TypeVar("M", bound="Message")


def write_message(message: Message) -> bytes:
    """The bytes of a file with this message; equal messages give equal bytes."""
    content = message.SerializeToString(deterministic=True)
    return _HEAD.pack(MAGIC, FORMAT_VERSION, zlib.crc32(content), len(content)) + content


def read_message(cls: type[M], data: bytes, what: str) -> M:
    """The message in the bytes of the file `what`; raises CorruptDataError if they are damaged."""
    if len(data) < _HEAD.size:
        raise CorruptDataError(f"{what} is truncated: {len(data)} bytes are less than its header")
    magic, version, crc, length = _HEAD.unpack_from(data)
    if magic != MAGIC:
        raise CorruptDataError(f"{what} is no file of a state root: it starts with {magic.hex()}")
    if version != FORMAT_VERSION:
        raise CorruptDataError(
            f"{what} has format version {version}; this software reads {FORMAT_VERSION}"
        )
    content = data[_HEAD.size :]
    if len(content) != length:
        raise CorruptDataError(
            f"{what} has {len(content)} bytes of content, its header says {length}"
        )
    if zlib.crc32(content) != crc:
        raise CorruptDataError(f"{what} fails its checksum")
    try:
        return cls.FromString(content)
    except DecodeError as error:
        raise CorruptDataError(f"{what} is not a {cls.DESCRIPTOR.name}: {error}") from None


def check_format(version: int, what: str) -> None:
    """Raises CorruptDataError if the message of the file `what` has another version."""
    if version != MESSAGE_VERSION:
        raise CorruptDataError(
            f"the message in {what} has version {version}; this software reads {MESSAGE_VERSION}"
        )
