"""Reader of bytes that Java's DataOutputStream wrote: big-endian numbers and modified UTF-8."""

from __future__ import annotations

from struct import Struct

from queryable_state.server.native_state.files.outcomes import damaged

_INT = Struct(">i")
_SHORT = Struct(">h")
_LENGTH = Struct(">H")


class JavaData:
    """A position in the bytes of one file; raises CorruptDataError behind its end."""

    def __init__(self, data: bytes, file: str, position: int = 0) -> None:
        self.data = data
        self.position = position
        self._file = file

    def int32(self) -> int:
        """The next 4 bytes."""
        return self._number(_INT)

    def int16(self) -> int:
        """The next 2 bytes."""
        return self._number(_SHORT)

    def text(self) -> str:
        """The next string of `writeUTF`."""
        return _characters(self._utf())

    def chunked_text(self) -> str:
        """The next string written as a number of chunks, then each chunk by `writeUTF`."""
        chunks = self.int32()
        if chunks < 0:
            raise damaged(self._file, f"a text has {chunks} chunks")
        # A character outside of the basic plane may be in two chunks.
        return _characters(b"".join(self._utf() for _ in range(chunks)))

    def at_end(self) -> bool:
        """True if no byte is left."""
        return self.position >= len(self.data)

    def _utf(self) -> bytes:
        length = self._number(_LENGTH)
        end = self.position + length
        if end > len(self.data):
            raise damaged(self._file, f"it ends within a text of {length} bytes")
        text = self.data[self.position : end]
        self.position = end
        try:
            _characters(text)
        except UnicodeError as problem:
            raise damaged(self._file, f"a text is no modified UTF-8 ({problem})") from problem
        return text

    def _number(self, form: Struct) -> int:
        end = self.position + form.size
        if end > len(self.data):
            raise damaged(self._file, "it ends within a number")
        (number,) = form.unpack_from(self.data, self.position)
        self.position = end
        return int(number)


def _characters(text: bytes) -> str:
    # Java writes characters outside of the basic plane as two surrogates, and NUL as two bytes.
    decoded = text.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    return decoded.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
