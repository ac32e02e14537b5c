"""The chunks of compress-lzf, Spark's codec `lzf`.

A chunk is `ZV`, a type, the big-endian size of its data, for compressed data also the original
size, and the data. The format has no end mark and no checksums.
"""

from __future__ import annotations

from queryable_state.server.native_state.files.outcomes import damaged

MAGIC = b"ZV"

_RAW = 0
_PACKED = 1
_RAW_HEADER = 5
_PACKED_HEADER = 7
# A control byte below starts a literal run; others are a copy of earlier bytes.
_LITERALS = 32
_LONG_COPY = 7


def decompress(data: bytes, file: str) -> bytes:
    """The original bytes; raises CorruptDataError if they cannot be decompressed."""
    parts: list[bytes] = []
    position, size = 0, len(data)
    while position < size:
        where = f"the LZF chunk at byte {position}"
        kind = data[position + 2] if position + _RAW_HEADER <= size else -1
        if not data.startswith(MAGIC, position) or kind not in (_RAW, _PACKED):
            raise damaged(file, f"{where} has an invalid header")
        begin = position + (_PACKED_HEADER if kind == _PACKED else _RAW_HEADER)
        position, start = begin + int.from_bytes(data[position + 3 : position + 5], "big"), position
        if position > size:
            raise damaged(file, f"it ends within {where}")
        if kind == _RAW:
            parts.append(data[begin:position])
            continue
        part = _original(data[begin:position])
        if part is None or len(part) != int.from_bytes(data[start + 5 : start + 7], "big"):
            raise damaged(file, f"{where} cannot be decompressed")
        parts.append(part)
    return b"".join(parts)


def _original(packed: bytes) -> bytes | None:
    """The bytes of a compressed chunk; None if it is damaged."""
    output = bytearray()
    position, size = 0, len(packed)
    try:
        while position < size:
            control = packed[position]
            position += 1
            if control < _LITERALS:
                end = position + control + 1
                if end > size:
                    return None
                output += packed[position:end]
                position = end
                continue
            length = control >> 5
            if length == _LONG_COPY:
                length += packed[position]
                position += 1
            distance = ((control & 0x1F) << 8) + packed[position] + 1
            position += 1
            begin = len(output) - distance
            if begin < 0:
                return None
            copied = output[begin : begin + length + 2]
            if distance < length + 2:
                # The copy goes on with the bytes that it has written.
                copied = (copied * (length // distance + 2))[: length + 2]
            output += copied
    except IndexError:
        return None
    return bytes(output)
