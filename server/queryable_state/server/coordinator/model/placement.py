"""Placement: the owner of every subtask, and the batch since which its state is complete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.coordinator.model.operators import Opening, Operator, Ownership
from queryable_state.wire.errors import (
    InvalidRequestError,
    JobError,
    PlacementError,
    Reason,
)

if TYPE_CHECKING:
    from collections.abc import Container, Iterator
    from collections.abc import Set as AbstractSet

    from queryable_state.server.coordinator.model.servers import Server, ServerTable

# How long a subtask above all quotas waits for executors that have no server yet.
_GRACE_MS = 2_000
# Minimum time between two grace periods of an operator.
_GRACE_AGAIN_MS = 60_000
_RETRY_MS = 100
# A newer server of the executor ends a lease early.
_LONGEST_RETRY_MS = 500
# An owner that renewed within this part of its lease counts as alive, whatever callers say.
_ALIVE = 0.5


class Placement:
    """Assignment of subtasks to servers.

    A subtask without an owner goes to the first server that asks for it, if that server owns fewer
    than ceil(parallelism / servers) subtasks of the operator, else to the least loaded one. It
    keeps its owner until that is replaced, deregisters or lapses. `version` grows with every
    change of an owner. Not thread-safe.
    """

    def __init__(self, servers: ServerTable, *, version: int) -> None:
        self.version = version
        self._servers = servers
        self._operators: dict[tuple[bytes, str], Operator] = {}

    def operator(self, query_id: bytes, uid: str) -> Operator | None:
        """The operator; None before its first subtask is assigned."""
        return self._operators.get((query_id, uid))

    def __iter__(self) -> Iterator[Operator]:
        """The operators of all queries."""
        return iter(self._operators.values())

    def operators(self, query_id: bytes) -> Iterator[Operator]:
        """The operators of a query."""
        return (operator for operator in self._operators.values() if operator.query_id == query_id)

    def declare(
        self, query_id: bytes, uid: str, parallelism: int, max_parallelism: int, run_id: bytes
    ) -> Operator:
        """The operator at this parallelism; a newer run may change that, never the key groups."""
        if not 1 <= parallelism <= max_parallelism <= 32767:
            raise InvalidRequestError(
                f"operator {uid!r}: parallelism {parallelism} and max_parallelism "
                f"{max_parallelism}: 1 <= parallelism <= max_parallelism <= 32767 must hold"
            )
        known = self._operators.get((query_id, uid))
        if known is not None and known.is_unused and known.run_id != run_id:
            # A run that was refused before it began sets no parallelism for later runs.
            known = None
        if known is not None and known.max_parallelism != max_parallelism:
            raise JobError(
                f"operator {uid!r} has {known.max_parallelism} key groups for the life of its "
                f"state, asked for {max_parallelism}: set max_parallelism to "
                f"{known.max_parallelism}, or give the operator another uid"
            )
        if known is not None and known.parallelism == parallelism:
            return known
        if known is not None and known.run_id == run_id:
            raise JobError(
                f"operator {uid!r} runs with parallelism {known.parallelism} and {parallelism} in "
                "one run of its query: give each of the two operators its own uid"
            )
        if known is not None:
            # Subtasks of the two declarations would have the same ids, so a server that has not
            # dropped the former ones would take them for those of the latter.
            same = (each for each in known.former if each.parallelism == parallelism)
            self._await_dropped(known, {holder for each in same for holder in each.holders})
        self.version += 1
        operator = Operator(
            query_id=query_id,
            uid=uid,
            parallelism=parallelism,
            max_parallelism=max_parallelism,
            run_id=run_id,
            declared_version=self.version,
            before=known,
        )
        self._operators[query_id, uid] = operator
        return operator

    def owner(self, operator: Operator, index: int) -> Server | None:
        """The server that owns the subtask and has not lapsed."""
        ownership = operator.subtasks.get(index)
        server = self._servers.find(ownership.server_id) if ownership else None
        return None if server is None or server.lapsed else server

    def reachable_owner(
        self, operator: Operator, index: int, not_server_id: str, now_ms: int
    ) -> Server | None:
        """The owner of a subtask; None if one must be assigned.

        `not_server_id` is an owner that the caller could not reach. Raises NO_OWNER if that is
        the owner and has not renewed lately: its lease must end first.
        """
        server = self.owner(operator, index)
        if server is None or server.server_id != not_server_id:
            return server
        if now_ms - server.renewed_ms <= _ALIVE * self._servers.lease_ms:
            return server
        raise self._no_owner(
            f"subtask {index} of operator {operator.uid!r} belongs to server {server.server_id} at "
            f"{server.backend_address}, which does not answer; it can be given to another when "
            "its lease has ended",
            min(max(_RETRY_MS, self._servers.freed_at_ms(server) - now_ms), _LONGEST_RETRY_MS),
        )

    def assign(
        self, operator: Operator, index: int, requester: Server, executors: int, now_ms: int
    ) -> Server:
        """Gives a subtask without an owner to a server.

        If `executors` exceed the servers, a subtask above all quotas waits for more servers for a
        grace period (NO_OWNER), before the least loaded server gets it.
        """
        if now_ms >= requester.expires_ms:
            raise PlacementError(
                f"server {requester.server_id} asks for a subtask with an expired lease; renew it",
                reason=Reason.LEASE_EXPIRED,
            )
        holding = self._servers.holding(now_ms)
        live = max(len(holding), executors)
        quota = -(-operator.parallelism // live)
        chosen = requester
        if _load(operator, requester) >= quota:
            chosen = min(holding, key=lambda server: _load(operator, server))
            if _load(operator, chosen) >= quota and len(holding) < live:
                self._await_executors(operator, index, live - len(holding), now_ms)
        self.version += 1
        operator.assign(index, chosen.server_id, self.version)
        return chosen

    def open_empty(
        self, operator: Operator, index: int, server_id: str, batch_id: int, first_batch: int
    ) -> Opening:
        """Records that the owner has opened an empty store before `batch_id`.

        May be repeated for the same batch. `first_batch` is the first batch of the query that
        this coordinator heard of. State is lost if a batch may have run before that, or since an
        earlier opening of the subtask.
        """
        ownership = self.assigned(operator, index, server_id)
        ownership.end_restore()
        if ownership.opened and batch_id <= ownership.opened_batch:
            return Opening(ownership.complete_since, lost=False)
        if operator.complete_since is None:
            self._await_former_owners(operator, server_id)
            operator.complete_since = _complete_since(operator.before, batch_id, first_batch)
            operator.before = None
        if ownership.opened_batch < 0:
            lost, complete_since = operator.complete_since > 0, operator.complete_since
            sealed_elsewhere = lost and complete_since == batch_id
        else:
            lost = batch_id > ownership.opened_batch
            complete_since = batch_id if lost else ownership.complete_since
            sealed_elsewhere = True
        operator.open(
            index,
            batch_id,
            complete_since=complete_since,
            unsealed_batch=batch_id if sealed_elsewhere else -1,
        )
        self.version += 1
        return Opening(complete_since, lost)

    def open_restored(
        self, operator: Operator, index: int, server_id: str, batch_id: int, complete_since: int
    ) -> Opening:
        """Records that the owner has opened a store restored from the root before `batch_id`.

        May be repeated for the same batch. No state is lost; `complete_since` is the root's.
        """
        ownership = self.assigned(operator, index, server_id)
        ownership.end_restore()
        if ownership.opened and batch_id <= ownership.opened_batch:
            return Opening(ownership.complete_since, lost=False)
        if operator.complete_since is None:
            self._await_former_owners(operator, server_id)
            operator.complete_since, operator.before = complete_since, None
        operator.open(index, batch_id, complete_since=complete_since)
        self.version += 1
        return Opening(complete_since, lost=False)

    def close(self, operator: Operator, index: int) -> None:
        """Invalidates the owner's store, which it drops with its next lease.

        It stays the owner and opens another store for the next batch.
        """
        operator.close(index)
        self.version += 1

    def assigned(self, operator: Operator, index: int, server_id: str) -> Ownership:
        """The ownership of a subtask of this server; NOT_OWNER if it belongs to another one."""
        ownership = operator.subtasks.get(index)
        if ownership is None or ownership.server_id != server_id:
            raise PlacementError(
                f"server {server_id} opens subtask {index} of operator {operator.uid!r}, which "
                f"belongs to {(ownership and ownership.server_id) or 'no server'}",
                placement_version=self.version,
            )
        return ownership

    def free(self, server_id: str) -> None:
        """Takes all subtasks from a server that has left."""
        for operator in self._operators.values():
            self.version += operator.free(server_id)

    def drop_query(self, query_id: bytes, *, but: Container[str] = ()) -> None:
        """Forgets the operators of a query, except those in `but`."""
        for key in [key for key in self._operators if key[0] == query_id and key[1] not in but]:
            del self._operators[key]
            self.version += 1

    def opened_by(self, server_id: str) -> Iterator[tuple[Operator, int]]:
        """The subtasks the server owns and has opened."""
        for operator in self._operators.values():
            for index in sorted(operator.owned_by(server_id)):
                if operator.subtasks[index].opened:
                    yield operator, index

    def holders(self, query_id: bytes) -> set[str]:
        """Ids of the servers that own and opened subtasks of the query."""
        return {holder for operator in self.operators(query_id) for holder in operator.holders}

    def _await_former_owners(self, operator: Operator, server_id: str) -> None:
        """Raises NO_OWNER while another server may still answer from a former parallelism; this
        one drops its former subtasks as it opens one."""
        former = {holder for each in operator.former for holder in each.holders}
        self._await_dropped(operator, former - {server_id})

    def _await_dropped(self, operator: Operator, server_ids: AbstractSet[str]) -> None:
        """Raises NO_OWNER while one of the servers may still answer from a former parallelism."""
        for server in map(self._servers.find, sorted(server_ids)):
            if server and not server.lapsed and server.taken_version < operator.declared_version:
                raise self._no_owner(
                    f"operator {operator.uid!r} runs at another parallelism now, and server "
                    f"{server.server_id} has not confirmed yet that it dropped its subtasks of it"
                )

    def _await_executors(self, operator: Operator, index: int, missing: int, now_ms: int) -> None:
        since = operator.over_quota_since_ms
        if since is None or now_ms - since >= _GRACE_AGAIN_MS:
            operator.over_quota_since_ms = since = now_ms
        if now_ms - since < _GRACE_MS:
            raise self._no_owner(
                f"subtask {index} of operator {operator.uid!r} waits for the servers of {missing} "
                "executors that have not registered one yet"
            )

    def _no_owner(self, message: str, retry_after_ms: int = _RETRY_MS) -> PlacementError:
        return PlacementError(
            message,
            reason=Reason.NO_OWNER,
            retry_after_ms=retry_after_ms,
            placement_version=self.version,
        )


def _load(operator: Operator, server: Server) -> int:
    return len(operator.owned_by(server.server_id))


def _complete_since(before: Operator | None, batch_id: int, first_batch: int) -> int:
    """The batch since which an operator is complete that is first opened at this parallelism."""
    if before is None:
        return first_batch
    opened = before.first_opened
    if opened is None:
        return _complete_since(before.before, batch_id, first_batch)
    if opened == batch_id:
        # All its subtasks were opened at this very batch, so nothing more is lost.
        return max(s.complete_since for s in before.subtasks.values() if s.opened_batch >= 0)
    return batch_id
