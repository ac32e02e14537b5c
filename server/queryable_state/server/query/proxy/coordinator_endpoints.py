"""Where a stand-alone proxy looks for the coordinator of its application."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from queryable_state.server.checkpoint.endpoint_file import read_endpoint
from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage


@dataclass(frozen=True)
class CoordinatorEndpoint:
    """One address of a coordinator, and the secret of its calls."""

    address: str
    """HOST:PORT."""

    secret: str = field(repr=False)


class CoordinatorEndpoints:
    """The configured addresses and secret, or those that the driver wrote into its endpoint file.

    Configured addresses count before those of the file, for a network in which the driver has
    other addresses. The secret of the file counts before the configured one: each driver has its
    own.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        secret: str,
        endpoint: str = "",
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        """`endpoint`: URI of an endpoint file or of the folder that has it; empty: none.

        Raises `InvalidRequestError` without addresses and endpoint, and without secret and
        endpoint; `CheckpointError` for a URI that no file system serves.
        """
        if not endpoint and not addresses:
            raise InvalidRequestError(
                "a proxy needs the coordinator of a job: give --coordinator or --endpoint"
            )
        if not endpoint and not secret:
            raise InvalidRequestError("a proxy needs the job's secret: `secret` is empty")
        self._addresses = tuple(addresses)
        self._secret = secret
        self._endpoint = endpoint
        self._storage: CheckpointStorage | None = None
        if endpoint:
            self._storage = storage_of(endpoint, storage_options)

    @property
    def follows_file(self) -> bool:
        """True if the driver's file is read again when the coordinator is lost."""
        return self._storage is not None

    async def read(self) -> list[CoordinatorEndpoint]:
        """The addresses to try, in order.

        Raises `CheckpointError` if the file is not there or not readable.
        """
        addresses, secret = self._addresses, self._secret
        if self._storage is not None:
            found = await asyncio.to_thread(read_endpoint, self._endpoint, self._storage)
            addresses, secret = addresses or found.coordinators, found.secret
        return [CoordinatorEndpoint(address, secret) for address in addresses]
