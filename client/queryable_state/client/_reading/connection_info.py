"""The public description of one connection of a client."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectionInfo:
    """How look-ups go to one server."""

    address: str
    """HOST:PORT of its gRPC port."""

    server_id: str
    """Id of the server that answers there; empty: none has answered yet."""

    transport: str
    """"frames": on a TCP connection of their own; "unary": as one gRPC call a message, which is
    slower; empty: there is no connection now."""

    frame_problem: str = ""
    """Why `transport` is not "frames". A frame port that is not reached is tried again in the
    background; empty: nothing is known against it."""

    @property
    def way(self) -> str:
        """The same in words, within a sentence."""
        over = {"frames": " over frames", "unary": " by unary gRPC calls"}.get(self.transport, "")
        return f"{self.address}{over}" + (f" ({self.frame_problem})" if self.frame_problem else "")

    def __str__(self) -> str:
        how = {"frames": "frames", "unary": "unary gRPC"}.get(self.transport, "not connected")
        return f"{self.address} {how}" + (f", {self.frame_problem}" if self.frame_problem else "")
