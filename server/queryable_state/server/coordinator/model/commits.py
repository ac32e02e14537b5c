"""Which batch of each query is committed, told to whom, and confirmed by whom."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from queryable_state.internal.v1 import coordinator_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class Commit:
    """A committed batch; -1: before the first."""

    version: int
    commit_time_ms: int
    watermark_ms: int


@dataclass(frozen=True)
class CommitRound:
    """One push of a commit to every server that holds state of the query."""

    query_id: bytes
    run_id: bytes
    """The newest run of the query when the round began."""
    after: int
    """Newest version pushed before."""
    commit: Commit
    stable_version: int
    addresses: dict[str, str]
    """HOST:PORT of `StateBackend` by server id."""


@dataclass(frozen=True, eq=False)
class StableCap:
    """What a snapshot holds until every store is cut: nothing above `version` becomes stable."""

    query_id: bytes
    version: int


@dataclass(kw_only=True)
class _QueryCommits:
    newest: Commit
    # What leases may carry. It follows `newest` when the push is over: a server that
    # learned of a commit otherwise would have no seals left to report to the push.
    settled: Commit
    stable: int
    pushing: bool = False
    confirmed: dict[str, int] = field(default_factory=dict)
    caps: set[StableCap] = field(default_factory=set)


class Commits:
    """The committed version of every query. Versions only grow. Not thread-safe."""

    def __init__(self) -> None:
        self._queries: dict[bytes, _QueryCommits] = {}
        self.changes = 0
        """Grows with everything a stable version depends on, but the holders."""

    def enter(self, query_id: bytes, commit: Commit) -> None:
        """The first contact with a query, and its newest commit then; may be repeated."""
        if query_id not in self._queries:
            version = commit.version
            self._queries[query_id] = _QueryCommits(newest=commit, settled=commit, stable=version)
            self.changes += 1

    def version(self, query_id: bytes) -> int:
        """Newest committed version; -1: none."""
        commits = self._queries.get(query_id)
        return -1 if commits is None else commits.newest.version

    def advance(self, query_id: bytes, commit: Commit) -> bool:
        """Every batch up to this one is committed; whether that is news."""
        commits = self._queries.get(query_id)
        if commits is None or commit.version <= commits.newest.version:
            return False
        commits.newest = commit
        self.changes += 1
        return True

    def begin_round(
        self, query_id: bytes, run_id: bytes, addresses: dict[str, str]
    ) -> CommitRound | None:
        """The push that is due, None where there is none or one is under way.

        One round a query at a time: a server reports its seals to one of them.
        """
        commits = self._queries.get(query_id)
        if commits is None or commits.pushing or commits.settled == commits.newest:
            return None
        commits.pushing = True
        return CommitRound(
            query_id=query_id,
            run_id=run_id,
            after=commits.settled.version,
            commit=commits.newest,
            stable_version=commits.stable,
            addresses=addresses,
        )

    def end_round(self, commit_round: CommitRound) -> None:
        """The push was answered by all, or its deadline has passed."""
        commits = self._queries.get(commit_round.query_id)
        if commits is not None:
            commits.pushing = False
            commits.settled = commit_round.commit
            if commits.newest.version < commits.settled.version:
                commits.newest = commits.settled
            self.changes += 1

    def abandon_round(self, commit_round: CommitRound) -> None:
        """What had to be written of the commit is not: it stays unsettled, and due again."""
        commits = self._queries.get(commit_round.query_id)
        if commits is not None:
            commits.pushing = False

    def withdraw(self, query_id: bytes) -> None:
        """Takes back every commit whose push is not over: the engine has withdrawn it."""
        commits = self._queries.get(query_id)
        if commits is not None:
            commits.newest = commits.settled
            commits.pushing = False
            self.changes += 1

    def settled(self, query_id: bytes, version: int) -> bool:
        """Whether the push of `version` is over, or will never be."""
        commits = self._queries.get(query_id)
        return commits is None or commits.settled.version >= version

    def confirm(self, query_id: bytes, server_id: str, version: int) -> None:
        """A server has committed up to `version`."""
        commits = self._queries.get(query_id)
        if commits is not None and version > commits.confirmed.get(server_id, -1):
            commits.confirmed[server_id] = version
            self.changes += 1

    def refresh_stable(self, query_id: bytes, holders: Iterable[str]) -> None:
        """Moves the stable version up to what all `holders` confirmed."""
        commits = self._queries.get(query_id)
        if commits is None:
            return
        confirmed = min(
            (commits.confirmed.get(server_id, -1) for server_id in holders),
            default=commits.settled.version,
        )
        limit = min((cap.version for cap in commits.caps), default=commits.newest.version)
        commits.stable = max(commits.stable, min(confirmed, limit))

    def stable(self, query_id: bytes) -> int:
        """Newest version that every holder confirmed, at most that of a cap; -1: none."""
        commits = self._queries.get(query_id)
        return -1 if commits is None else commits.stable

    def cap_stable(self, query_id: bytes) -> StableCap | None:
        """Keeps all that is newer than what is committed now from becoming stable.

        The version is that of the last push that is over. None where nothing is committed.
        """
        commits = self._queries.get(query_id)
        if commits is None:
            return None
        # A server may have confirmed a newer one than was pushed; what is stable stays so.
        cap = StableCap(query_id, max(commits.settled.version, commits.stable))
        if cap.version < 0:
            return None
        commits.caps.add(cap)
        self.changes += 1
        return cap

    def settled_commit(self, query_id: bytes) -> Commit:
        """The newest commit whose push is over; before the first one where nothing is known."""
        commits = self._queries.get(query_id)
        return Commit(-1, 0, 0) if commits is None else commits.settled

    def lift_cap(self, cap: StableCap) -> None:
        """Ends a cap; of one that has ended, or of a query that was dropped: nothing."""
        commits = self._queries.get(cap.query_id)
        if commits is not None:
            commits.caps.discard(cap)
            self.changes += 1

    def told(self, query_id: bytes) -> coordinator_pb2.QueryVersion | None:
        """What a lease or a begin carries; None where nothing is known of the query."""
        commits = self._queries.get(query_id)
        if commits is None:
            return None
        return coordinator_pb2.QueryVersion(
            query_id=query_id,
            version=commits.settled.version,
            commit_time_ms=commits.settled.commit_time_ms,
            watermark_ms=commits.settled.watermark_ms,
            stable_version=commits.stable,
        )

    def forget_server(self, server_id: str) -> None:
        """Forgets what a server that is gone has confirmed."""
        for commits in self._queries.values():
            commits.confirmed.pop(server_id, None)
        self.changes += 1

    def drop(self, query_id: bytes) -> None:
        """Forgets a query."""
        self._queries.pop(query_id, None)
