"""Writers of Spark's formats, for tests of their readers: what Java writes, byte for byte."""

from __future__ import annotations

import json
import zlib
from struct import pack
from typing import TYPE_CHECKING

import cramjam
import google_crc32c
from xxhash import xxh32_intdigest

from queryable_state.server.native_state.files.changes import Change, ChangeKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_BLOCK = 1 << 10


def blocks(data: bytes) -> list[bytes]:
    """The data in the blocks that a compressor gets."""
    return [data[at : at + _BLOCK] for at in range(0, len(data), _BLOCK)]


def lz4(data: bytes) -> bytes:
    """lz4-java's block stream."""
    parts = []
    for block in blocks(data):
        packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
        method = 0x20
        if len(packed) >= len(block):
            method, packed = 0x10, block
        parts.append(_lz4_header(method, packed, block) + packed)
    return b"".join(parts) + pack("<8sBiiI", b"LZ4Block", 0x10, 0, 0, 0)


def _lz4_header(method: int, packed: bytes, block: bytes) -> bytes:
    checksum = xxh32_intdigest(block, 0x9747B28C) & 0x0FFFFFFF
    return pack("<8sBiiI", b"LZ4Block", method, len(packed), len(block), checksum)


def snappy(data: bytes) -> bytes:
    """snappy-java's stream."""
    parts = [b"\x82SNAPPY\x00", pack(">ii", 1, 1)]
    for block in blocks(data):
        packed = bytes(cramjam.snappy.compress_raw(block))
        parts += [pack(">i", len(packed)), packed]
    return b"".join(parts)


def zstd(data: bytes) -> bytes:
    """One zstd frame."""
    return bytes(cramjam.zstd.compress(data))


def lzf(data: bytes) -> bytes:
    """Chunks of compress-lzf, as literals and, for repetitions of one byte, as copies."""
    parts = []
    for block in blocks(data):
        packed = _lzf_packed(block)
        if len(packed) + 2 < len(block):
            parts.append(b"ZV\x01" + pack(">HH", len(packed), len(block)) + packed)
        else:
            parts.append(b"ZV\x00" + pack(">H", len(block)) + block)
    return b"".join(parts)


def _lzf_packed(block: bytes) -> bytes:
    packed = bytearray()
    at = 0
    while at < len(block):
        run = 1
        while at + run < len(block) and block[at + run] == block[at] and run < 260:
            run += 1
        if run < 4:
            packed += bytes((0, block[at]))
            at += 1
            continue
        # One literal, then a copy of it over and over.
        packed += bytes((0, block[at]))
        length = run - 1 - 2
        packed += bytes((length << 5, 0)) if length < 7 else bytes((7 << 5, length - 7, 0))
        at += run
    return bytes(packed)


CODECS = {"lz4": lz4, "snappy": snappy, "zstd": zstd, "lzf": lzf}


def sized(changes: Iterable[Change]) -> bytes:
    """Records of deltas and of changelogs v1 and v3."""
    parts = []
    for kind, key, value in changes:
        parts += [pack(">i", len(key)), key]
        parts += [pack(">i", -1)] if kind is ChangeKind.DELETE else [pack(">i", len(value)), value]
    return b"".join(parts) + pack(">i", -1)


def typed(changes: Iterable[Change]) -> bytes:
    """Records of changelogs v2 and v4."""
    parts = []
    for kind, key, value in changes:
        parts += [bytes((kind,)), pack(">i", len(key)), key]
        parts += [pack(">i", -1)] if kind is ChangeKind.DELETE else [pack(">i", len(value)), value]
    return b"".join(parts) + b"\0"


def changelog(
    version: int, changes: Iterable[Change], lineage: Sequence[tuple[int, str]] = ()
) -> bytes:
    """A changelog before its compression."""
    head = b"" if version == 1 else java_text(f"v{version}")
    if version >= 3:
        items = [{"version": number, "checkpointUniqueId": name} for number, name in lineage]
        head += java_text(json.dumps(items))
    return head + (typed(changes) if version in (2, 4) else sized(changes))


def java_text(text: str) -> bytes:
    """`DataOutputStream.writeUTF`."""
    units = text.encode("utf-16-be", "surrogatepass")
    encoded = b"".join(
        _modified(int.from_bytes(units[at : at + 2], "big")) for at in range(0, len(units), 2)
    )
    return pack(">H", len(encoded)) + encoded


def _modified(unit: int) -> bytes:
    return b"\xc0\x80" if unit == 0 else chr(unit).encode("utf-8", "surrogatepass")


def chunked_text(text: str, size: int = 65535) -> bytes:
    """A text as the schema files write it from version 2 on."""
    units = text.encode("utf-16-be", "surrogatepass")
    chunks = [
        units[at : at + 2 * size].decode("utf-16-be", "surrogatepass")
        for at in range(0, len(units), 2 * size)
    ]
    return pack(">i", len(chunks)) + b"".join(java_text(chunk) for chunk in chunks)


def hadoop_checksums(data: bytes, chunk: int = 512) -> bytes:
    """Hadoop's `.NAME.crc`."""
    sums = [zlib.crc32(data[at : at + chunk]) for at in range(0, len(data), chunk)]
    return b"crc\0" + pack(">i", chunk) + b"".join(pack(">I", each) for each in sums)


def spark_checksum(data: bytes) -> bytes:
    """Spark's `NAME.crc`."""
    value = google_crc32c.value(data)
    signed = value - (1 << 32) if value >> 31 else value
    content = {"algorithm": "CRC32C", "value": signed, "mainFileSize": len(data)}
    return json.dumps(content).encode()
