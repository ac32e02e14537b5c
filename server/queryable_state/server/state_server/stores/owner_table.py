"""Cache of the owners of subtasks, as the coordinator assigned them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.internal.v1 import backend_pb2, coordinator_pb2
from queryable_state.server.state_server.stores.owned_subtask import SubtaskId
from queryable_state.wire.calls.single_flight import SingleFlight

if TYPE_CHECKING:
    from queryable_state.server.coordinator_client import CoordinatorClient
    from queryable_state.server.state_server.base.lease import Lease
    from queryable_state.server.state_server.stores.store_table import StoreTable


class OwnerTable:
    """Owners of subtasks, valid for one placement version.

    While the lease holds, this server's own subtasks are located in the store table.
    """

    def __init__(
        self,
        coordinator: CoordinatorClient,
        table: StoreTable,
        lease: Lease,
        *,
        server_id: str,
        backend_address: str,
    ) -> None:
        self._coordinator = coordinator
        self._table = table
        self._lease = lease
        self._server_id = server_id
        self._backend_address = backend_address
        self._owners: dict[SubtaskId, backend_pb2.LocateSubtaskResponse] = {}
        self._calls: SingleFlight[tuple[SubtaskId, str], backend_pb2.LocateSubtaskResponse] = (
            SingleFlight()
        )

    async def locate(
        self, request: backend_pb2.LocateSubtaskRequest
    ) -> backend_pb2.LocateSubtaskResponse:
        """Returns the owner of a subtask, if possible not the one that the task gave up on."""
        subtask_id = SubtaskId.of(request.subtask)
        not_server_id = request.not_server_id
        if (
            not_server_id != self._server_id
            and self._lease.holds()
            and self._table.subtask(subtask_id) is not None
        ):
            return backend_pb2.LocateSubtaskResponse(
                placement_version=self._lease.placement_version,
                server_id=self._server_id,
                address=self._backend_address,
            )
        known = self._owners.get(subtask_id)
        if (
            known is not None
            and known.server_id != not_server_id
            and known.placement_version >= self._lease.placement_version
        ):
            return known
        owner = await self._calls.run(
            (subtask_id, not_server_id),
            lambda: self._coordinator.assign_subtask(
                coordinator_pb2.AssignSubtaskRequest(
                    subtask=request.subtask,
                    server_id=self._server_id,
                    not_server_id=not_server_id,
                )
            ),
        )
        self._owners[subtask_id] = owner
        return owner

    def forget_job(self, query_id: bytes) -> None:
        """Removes the owners of a job's subtasks."""
        for subtask_id in [known for known in self._owners if known.query_id == query_id]:
            del self._owners[subtask_id]

    def forget_all(self) -> None:
        """Removes all owners."""
        self._owners.clear()

    async def aclose(self) -> None:
        """Cancels pending requests; idempotent."""
        await self._calls.aclose()
