"""Owners of the state partitions: one server alone, or several by rendezvous hashing."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from xxhash import xxh3_64_intdigest

from queryable_state.v1 import registration_pb2, status_pb2
from queryable_state.wire.addresses import join_address, split_address
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Sequence


class Owners:
    """The servers that share the partitions of a query; all of them are given the same list.

    Each partition belongs to the server with the highest hash of partition and address, so a
    server that is added or removed moves only its own share.
    """

    def __init__(self, servers: Sequence[str], own: str) -> None:
        """`servers`: HOST:PORT at which clients reach each server; empty: this one has all
        partitions. `own`: the address of this server, if it is known before it listens.

        Raises `InvalidRequestError` for an address without a port, and if `own` is not listed.
        """
        self._servers = tuple(dict.fromkeys(_address(each) for each in servers))
        self._own, self._frames = own, registration_pb2.FrameEndpoint()
        if self._servers and own not in self._servers:
            raise InvalidRequestError(
                f"this server is at {own or 'any free port'}, which is not in servers "
                f"(--servers): {', '.join(self._servers)}: start each server with the same list "
                "and with its own address of it in --advertise, or in --host and --port"
            )
        self.server_id = _server_id(own) if servers else f"native-{uuid.uuid4().hex[:12]}"

    @property
    def are_several(self) -> bool:
        """True if other servers have partitions too."""
        return len(self._servers) > 1

    @property
    def servers(self) -> tuple[str, ...]:
        """The addresses of all servers."""
        return self._servers or (self._own,)

    def started(self, address: str, frames: registration_pb2.FrameEndpoint) -> None:
        """Records the address of this server, which is known once its port is bound."""
        self._own, self._frames = address, frames

    def owner(self, partition: int) -> str:
        """The address of the server that has a partition."""
        servers = self.servers
        if len(servers) == 1:
            return servers[0]
        return max(
            servers, key=lambda each: (xxh3_64_intdigest(f"{partition}@{each}".encode()), each)
        )

    def is_own(self, partition: int) -> bool:
        """True if this server has a partition."""
        return not self.are_several or self.owner(partition) == self._own

    def ranges(self, partitions: int) -> list[registration_pb2.RangeOwner]:
        """The owner of each partition, as runs."""
        found: list[registration_pb2.RangeOwner] = []
        for partition in range(partitions):
            address = self.owner(partition)
            if found and found[-1].address == address:
                found[-1].last_key_group = partition
                continue
            found.append(
                registration_pb2.RangeOwner(
                    first_key_group=partition,
                    last_key_group=partition,
                    server_id=self.server_id if address == self._own else _server_id(address),
                    address=address,
                    frames=self._frames if address == self._own else None,
                )
            )
        return found

    def shares(self, partitions: int) -> list[list[int]]:
        """The partitions of each server that has some, this server first."""
        shares: dict[str, list[int]] = {}
        for partition in range(partitions):
            shares.setdefault(self.owner(partition), []).append(partition)
        return sorted(shares.values(), key=lambda share: self.owner(share[0]) != self._own)

    def others(self) -> list[status_pb2.ServerStatus]:
        """The other servers, as far as this one knows them."""
        return [
            status_pb2.ServerStatus(
                server_id=_server_id(each), host=each.rpartition(":")[0], query_address=each
            )
            for each in self.servers
            if each != self._own
        ]


def _server_id(address: str) -> str:
    """The id of the server at an address, which every server of a list derives alike."""
    return f"native-{address}"


def _address(text: str) -> str:
    host, port = split_address(text, "a server of servers (--servers)")
    if not port:
        raise InvalidRequestError(
            f"{text} of servers (--servers) has no port: write HOST:PORT of each server"
        )
    return join_address(host, port)
