"""Addresses at which the state of a running job is answered."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from queryable_state.streaming.spark.savepoints.job_savepoints import JobSavepoints
from queryable_state.wire.addresses import host_and_port

if TYPE_CHECKING:
    from queryable_state.client import QueryableStateClient


class JobAddresses(JobSavepoints):
    """The methods of a JobClient that find its servers. Usable from every thread."""

    @abstractmethod
    def raise_if_failed(self) -> None:
        """Raises the failure of the job, if it has failed for good."""

    def proxy_addresses(self) -> list[str]:
        """HOST:PORT of every live proxy; empty before the first task."""
        return self._application.proxy_addresses()

    def proxy_address(self, timeout_s: float = 60.0) -> str:
        """HOST:PORT of a proxy; waits for the first task, which starts the first proxy."""
        return self._application.proxy_address(timeout_s, self.raise_if_failed)

    def web_address(self, timeout_s: float = 60.0) -> str:
        """URL of REST and the page of the application; waits for the start of their process.

        Raises InvalidRequestError if they are off (`spark.queryable_state.web`) or cannot start.
        """
        return self._application.web.address(timeout_s)

    def get_queryable_client(
        self, timeout_s: float = 60.0, *, token: str | None = None
    ) -> QueryableStateClient:
        """A client for the job's state, bound to the calling event loop; the caller closes it.
        `token` names the caller, if the servers have an access file."""
        from queryable_state.client import QueryableStateClient

        tls = self._application.tls.tls_for_calls
        address = host_and_port(self.proxy_address(timeout_s))
        return QueryableStateClient(*address, tls=tls or False, token=token)
