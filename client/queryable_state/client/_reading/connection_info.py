"""Public description of one connection of a client."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectionInfo:
    """Current transport of lookups to one server."""

    address: str
    """HOST:PORT of its gRPC port."""

    server_id: str
    """Id of the server at the address; empty: none has answered yet."""

    transport: str
    """"frames": over a TCP connection of the frame protocol; "unary": one gRPC call for each
    message, which is slower; empty: not connected."""

    frame_problem: str = ""
    """Why `transport` is not "frames"; empty: no problem is known. The client retries an
    unreachable frame port in the background."""

    @property
    def way(self) -> str:
        """Address and transport in words, for use within a sentence."""
        over = {"frames": " over frames", "unary": " by unary gRPC calls"}.get(self.transport, "")
        return f"{self.address}{over}" + (f" ({self.frame_problem})" if self.frame_problem else "")

    def __str__(self) -> str:
        how = {"frames": "frames", "unary": "unary gRPC"}.get(self.transport, "not connected")
        return f"{self.address} {how}" + (f", {self.frame_problem}" if self.frame_problem else "")
