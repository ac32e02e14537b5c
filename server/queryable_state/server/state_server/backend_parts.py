"""Construction of the parts behind a server's `StateBackend`."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from queryable_state.server.state_server.backend_service import BackendService
from queryable_state.server.state_server.base.job_files import DriverObjects, FileSystems
from queryable_state.server.state_server.base.local_copies import LocalCopies
from queryable_state.server.state_server.base.server_directory import ServerDirectory
from queryable_state.server.state_server.batches.attempt_starter import AttemptStarter
from queryable_state.server.state_server.batches.changelog_writer import ChangelogWriter
from queryable_state.server.state_server.batches.staging import Staging
from queryable_state.server.state_server.owned_stores import OwnedStores
from queryable_state.server.state_server.restore.restorer import Restorer
from queryable_state.server.state_server.snapshots.snapshots import Snapshots
from queryable_state.server.state_server.stores.compactor import Compactor
from queryable_state.server.state_server.stores.owner_table import OwnerTable
from queryable_state.server.state_server.stores.store_factory import StoreFactory

if TYPE_CHECKING:
    from queryable_state.server.coordinator_client import CoordinatorClient
    from queryable_state.server.state_server.base.lease import Lease
    from queryable_state.server.state_server.base.thread_pool import ServerThreads
    from queryable_state.server.state_server.settings import StateServerSettings
    from queryable_state.server.state_server.stores.store_table import StoreTable


class StoreFolders:
    """Folders on a server's disk: live stores, scratch files and copies of snapshots.

    The executor's next server uses only the copies; other files of a killed server are removed.
    """

    def __init__(self, settings: StateServerSettings) -> None:
        directory = ServerDirectory(Path(settings.directory))
        self.factory = StoreFactory(settings.backend, directory.stores, settings.rocksdb)
        self.copies = LocalCopies(directory.copies)
        self.scratch = directory.scratch
        shutil.rmtree(self.scratch, ignore_errors=True)


class BackendParts:
    """The parts of one server: owners, openings, staging, snapshots and owned stores."""

    def __init__(
        self,
        settings: StateServerSettings,
        coordinator: CoordinatorClient,
        table: StoreTable,
        lease: Lease,
        threads: ServerThreads,
        stores: StoreFolders,
        *,
        server_id: str,
        backend_address: str,
        stop: asyncio.Event,
    ) -> None:
        factory, copies, background = stores.factory, stores.copies, threads.background
        file_systems = FileSystems(
            threads.storing,
            threads.transfers,
            DriverObjects(coordinator, asyncio.get_running_loop()),
        )
        self.compactor = Compactor(table, background, chunk_records=settings.compact_chunk_records)
        self._owners = OwnerTable(
            coordinator, table, lease, server_id=server_id, backend_address=backend_address
        )
        restorer = Restorer(factory, file_systems, copies, threads.loading, stores.scratch)
        self.restores = restorer.counts
        self.running_restores = restorer.running
        self._opener = AttemptStarter(
            coordinator,
            table,
            lease,
            background,
            factory,
            restorer,
            file_systems,
            self.compactor,
            server_id=server_id,
        )
        self.owned_stores = OwnedStores(
            table, background, self.compactor, self._opener, self._owners, copies
        )
        self.staging = Staging(
            table,
            lease,
            background,
            ChangelogWriter(threads.storing),
            settings.limits,
            server_id=server_id,
            strict_determinism=settings.strict_determinism,
        )
        snapshots = Snapshots(
            table,
            lease,
            background,
            self.compactor,
            factory,
            file_systems,
            copies,
            threads.transfers,
            stores.scratch,
            server_id=server_id,
        )
        self.service = BackendService(
            self._owners,
            self._opener,
            self.staging,
            self.owned_stores,
            snapshots,
            background,
            stop=stop,
        )

    async def aclose(self) -> None:
        """Cancels pending requests, then closes every store."""
        await self._opener.aclose()
        await self._owners.aclose()
        await self.owned_stores.aclose()
