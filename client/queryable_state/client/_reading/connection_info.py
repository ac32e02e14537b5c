"""A connection of a client, as it tells of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectionInfo:
    """How look-ups go to one server."""

    address: str
    """HOST:PORT of its gRPC port."""

    server_id: str
    """Who said hello there; empty: nobody yet."""

    transport: str
    """"frames": on a TCP connection of their own; "grpc": over a gRPC stream, which is about five
    times slower; empty: there is no connection now."""

    frame_problem: str = ""
    """Why `transport` is not "frames" although the server has a frame port; it is tried again."""

    def __str__(self) -> str:
        how = {"frames": "frames", "grpc": "gRPC"}.get(self.transport, "not connected")
        return f"{self.address} {how}" + (f", {self.frame_problem}" if self.frame_problem else "")
