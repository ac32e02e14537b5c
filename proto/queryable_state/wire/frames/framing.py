"""Frames on a TCP connection: four bytes of length, big-endian, then so many bytes.

What `StreamKvState` carries, without HTTP/2 around it. The asking side begins
with `PREAMBLE`, so that whoever speaks something else is known by its first bytes.
"""

from __future__ import annotations

from queryable_state.wire.errors import CorruptDataError

PREAMBLE = b"QKVS\x00\x00\x00\x01"
"""Last byte: version of the framing."""

_LENGTH_BYTES = 4


def framed(frame: bytes) -> bytes:
    """A frame as it is sent."""
    return len(frame).to_bytes(_LENGTH_BYTES, "big") + frame


class FrameReader:
    """Frames out of bytes as they arrive.

    `feed` takes what arrived, `take` gives the next whole frame. A length over
    `most_bytes` raises `CorruptDataError`: no peer of ours sends one.
    """

    __slots__ = ("_at", "_held", "_need", "_pieces", "most_bytes")

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        """Of one frame; may be changed between frames."""
        self._pieces: list[bytes] = []
        self._at = 0
        # Bytes not taken yet; how many there have to be before another look is worth it.
        self._held = 0
        self._need = _LENGTH_BYTES

    @property
    def held_bytes(self) -> int:
        """Bytes that arrived and were not taken."""
        return self._held

    @property
    def is_partial(self) -> bool:
        """Whether a frame has begun and not ended, as far as `take` has looked."""
        return 0 < self._held < self._need

    def clear(self) -> None:
        """Lets go of what was not taken."""
        self._pieces.clear()
        self._at = self._held = 0
        self._need = _LENGTH_BYTES

    def feed(self, data: bytes) -> None:
        """Takes what arrived."""
        self._pieces.append(data)
        self._held += len(data)

    def take(self) -> bytes | None:
        """The next frame, or None before its last byte arrived."""
        if self._held < self._need:
            return None
        pieces = self._pieces
        if len(pieces) > 1:
            # At most twice a frame, however many pieces it comes in.
            pieces[0] = pieces[0][self._at :]
            self._at = 0
            pieces[:] = (b"".join(pieces),)
        data = pieces[0]
        begin = self._at + _LENGTH_BYTES
        length = int.from_bytes(data[self._at : begin], "big")
        if length > self.most_bytes:
            raise CorruptDataError(
                f"a frame of {length:,} bytes is announced, and at most {self.most_bytes:,} are "
                "taken: the other side speaks another protocol, or sends too much at once"
            )
        whole = _LENGTH_BYTES + length
        if self._held < whole:
            self._need = whole
            return None
        self._need = _LENGTH_BYTES
        self._held -= whole
        if self._held:
            self._at += whole
        else:
            pieces.clear()
            self._at = 0
        return data[begin : begin + length]
