"""gRPC calls by hand: HTTP/2 frames on a socket, of which nothing need be read."""

from __future__ import annotations

import socket

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS, _WINDOW_UPDATE = 0, 1, 4, 8
_END_STREAM, _END_HEADERS = 1, 4
_INITIAL_WINDOW = 4
_MOST = 0x7FFFFFFF


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """One HTTP/2 frame."""
    return (
        len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload
    )


def opening(window: int = _MOST) -> bytes:
    """What a client sends first; `window`: how much of each stream it says it takes."""
    settings = _INITIAL_WINDOW.to_bytes(2, "big") + window.to_bytes(4, "big")
    return (
        _PREFACE
        + frame(_SETTINGS, 0, 0, settings)
        + frame(_WINDOW_UPDATE, 0, 0, (_MOST - 65535).to_bytes(4, "big"))
    )


def headers(method: str, stream: int, authorization: str = "") -> bytes:
    """The beginning of a call."""
    fields = (
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", method.encode()),
        (b":authority", b"localhost"),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
        *(((b"authorization", authorization.encode()),) if authorization else ()),
    )
    block = b"".join(
        b"\x00" + bytes((len(name),)) + name + _length(len(value)) + value for name, value in fields
    )
    return frame(_HEADERS, _END_HEADERS, stream, block)


def _length(length: int) -> bytes:
    """The length of a header's value in HPACK: 7 bits, and the rest in bytes of 7 bits."""
    if length < 127:
        return bytes((length,))
    encoded, length = bytearray((127,)), length - 127
    while length >= 128:
        encoded.append(length & 127 | 128)
        length >>= 7
    encoded.append(length)
    return bytes(encoded)


def message(data: bytes, stream: int, *, announced: int | None = None) -> bytes:
    """A request, or the beginning of a longer one of which no more comes."""
    length = len(data) if announced is None else announced
    body = b"\x00" + length.to_bytes(4, "big") + data
    pieces = [body[at : at + 16_384] for at in range(0, len(body), 16_384)]
    ends = announced is None
    return b"".join(
        frame(_DATA, _END_STREAM if ends and piece is pieces[-1] else 0, stream, piece)
        for piece in pieces
    )


def connected(address: str) -> socket.socket:
    """A socket to HOST:PORT that takes little."""
    host, _, port = address.rpartition(":")
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    opened.settimeout(0.2)
    opened.connect((host, int(port)))
    return opened


def send(to: socket.socket, data: bytes) -> bool:
    """Sends as much as the other side takes; False where it hung up."""
    try:
        to.sendall(data)
    except TimeoutError:
        return True
    except OSError:
        return False
    return True
