"""Checksums beside the files of a checkpoint.

Hadoop's file systems of local disks keep `.NAME.crc` (CRC32 of each 512 bytes), Spark keeps
`NAME.crc` if `spark.sql.streaming.checkpoint.fileChecksum.enabled` is set (CRC32C of the file, as
JSON).
"""

from __future__ import annotations

import json
import struct
import zlib
from struct import Struct

import google_crc32c

_MAGIC = b"crc\0"
_HEADER = Struct(">4si")
_CRC32C = "CRC32C"
_BITS = 0xFFFFFFFF


def hadoop_checksum_name(name: str) -> str:
    """The name of the file with Hadoop's checksums of a file."""
    return f".{name}.crc"


def spark_checksum_name(name: str) -> str:
    """The name of the file with Spark's checksum of a file."""
    return f"{name}.crc"


def hadoop_mismatch(data: bytes, sums: bytes) -> str:
    """Describes how a file contradicts its Hadoop checksums; empty if it does not."""
    try:
        magic, chunk = _HEADER.unpack_from(sums)
    except struct.error:
        return "its checksum file is cut off"
    if magic != _MAGIC or chunk <= 0:
        return "its checksum file has an invalid header"
    chunks = -(-len(data) // chunk)
    if len(sums) - _HEADER.size != 4 * chunks:
        return (
            f"it has {len(data)} bytes, but its checksum file is of {(len(sums) - 8) // 4} chunks "
            f"of {chunk} bytes"
        )
    view = memoryview(data)
    crc32 = zlib.crc32
    computed = [crc32(view[at : at + chunk]) for at in range(0, len(data), chunk)]
    stored = Struct(f">{chunks}I").unpack_from(sums, _HEADER.size)
    if list(stored) == computed:
        return ""
    differing = next(at for at in range(chunks) if stored[at] != computed[at])
    return f"bytes {differing * chunk} and following do not have their CRC32"


def spark_mismatch(data: bytes, sums: bytes) -> str:
    """Describes how a file contradicts Spark's checksum of it; empty if it does not.

    An algorithm that is unknown is not checked.
    """
    try:
        stored = json.loads(sums)
        algorithm, value = stored["algorithm"], int(stored["value"])
        size = int(stored["mainFileSize"])
    except (ValueError, KeyError, TypeError):
        return "its checksum file is no JSON of a checksum"
    if size != len(data):
        return f"it has {len(data)} bytes instead of {size}"
    if algorithm == _CRC32C and google_crc32c.value(data) != value & _BITS:
        return "its bytes do not have their CRC32C"
    return ""
