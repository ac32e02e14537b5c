"""Commits of every query: newest committed, published to the servers, and acked by each."""

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
    """The publication of one commit to every server that holds state of the query."""

    query_id: bytes
    run_id: bytes
    """The newest run of the query when the round began."""
    after: int
    """Newest version published before."""
    commit: Commit
    stable_version: int
    addresses: dict[str, str]
    """HOST:PORT of `StateBackend` by server id."""


@dataclass(frozen=True, eq=False)
class CompactionCap:
    """Held by a snapshot until every store has its own: no store compacts beyond `version`."""

    query_id: bytes
    version: int


@dataclass(kw_only=True)
class _QueryCommits:
    newest: Commit
    # The version in leases and begins. It follows `newest` when the round is over: a server that
    # learned of a commit from its lease would have no seals left to report to the round.
    published: Commit
    min_acked: int
    publishing: bool = False
    acked: dict[str, int] = field(default_factory=dict)
    caps: set[CompactionCap] = field(default_factory=set)


class Commits:
    """The committed version of every query. Versions only grow. Not thread-safe."""

    def __init__(self) -> None:
        self._queries: dict[bytes, _QueryCommits] = {}
        self.changes = 0
        """Grows with every input of `advance_min_acked` except the holders."""

    def enter(self, query_id: bytes, commit: Commit) -> None:
        """Adds a query at its newest commit; does nothing for a known query."""
        if query_id not in self._queries:
            version = commit.version
            self._queries[query_id] = _QueryCommits(
                newest=commit, published=commit, min_acked=version
            )
            self.changes += 1

    def version(self, query_id: bytes) -> int:
        """The newest committed version; -1: none."""
        commits = self._queries.get(query_id)
        return -1 if commits is None else commits.newest.version

    def advance(self, query_id: bytes, commit: Commit) -> bool:
        """Records that all batches up to this one are committed; True if the version advanced."""
        commits = self._queries.get(query_id)
        if commits is None or commit.version <= commits.newest.version:
            return False
        commits.newest = commit
        self.changes += 1
        return True

    def begin_round(
        self, query_id: bytes, run_id: bytes, addresses: dict[str, str]
    ) -> CommitRound | None:
        """Starts to publish the newest commit; None if it is published, or a round is under way.

        A query has one round at a time, because a server reports its seals only once.
        """
        commits = self._queries.get(query_id)
        if commits is None or commits.publishing or commits.published == commits.newest:
            return None
        commits.publishing = True
        return CommitRound(
            query_id=query_id,
            run_id=run_id,
            after=commits.published.version,
            commit=commits.newest,
            stable_version=commits.min_acked,
            addresses=addresses,
        )

    def end_round(self, commit_round: CommitRound) -> None:
        """Records the commit as published: all servers have answered, or the deadline is over."""
        commits = self._queries.get(commit_round.query_id)
        if commits is not None:
            commits.publishing = False
            commits.published = commit_round.commit
            if commits.newest.version < commits.published.version:
                commits.newest = commits.published
            self.changes += 1

    def abandon_round(self, commit_round: CommitRound) -> None:
        """Ends a round whose manifests could not be written; the commit is due again."""
        commits = self._queries.get(commit_round.query_id)
        if commits is not None:
            commits.publishing = False

    def withdraw(self, query_id: bytes) -> None:
        """Takes back every unpublished commit, because Spark's commit is withdrawn."""
        commits = self._queries.get(query_id)
        if commits is not None:
            commits.newest = commits.published
            commits.publishing = False
            self.changes += 1

    def is_published(self, query_id: bytes, version: int) -> bool:
        """Whether `version` is published, or never will be because the query is unknown."""
        commits = self._queries.get(query_id)
        return commits is None or commits.published.version >= version

    def ack(self, query_id: bytes, server_id: str, version: int) -> None:
        """Records that a server has committed up to `version`."""
        commits = self._queries.get(query_id)
        if commits is not None and version > commits.acked.get(server_id, -1):
            commits.acked[server_id] = version
            self.changes += 1

    def advance_min_acked(self, query_id: bytes, holders: Iterable[str]) -> None:
        """Moves `min_acked` up to the newest version all `holders` have acked, within all caps."""
        commits = self._queries.get(query_id)
        if commits is None:
            return
        acked = min(
            (commits.acked.get(server_id, -1) for server_id in holders),
            default=commits.published.version,
        )
        limit = min((cap.version for cap in commits.caps), default=commits.newest.version)
        commits.min_acked = max(commits.min_acked, min(acked, limit))

    def min_acked(self, query_id: bytes) -> int:
        """The version up to which stores may compact; -1: none.

        It is the newest version that every holder has acked, but no newer than any cap.
        """
        commits = self._queries.get(query_id)
        return -1 if commits is None else commits.min_acked

    def cap_compaction(self, query_id: bytes) -> CompactionCap | None:
        """Keeps stores from compacting beyond the published version; None if there is none."""
        commits = self._queries.get(query_id)
        if commits is None:
            return None
        # Servers may have acked a newer version than was published, and compacted up to it.
        cap = CompactionCap(query_id, max(commits.published.version, commits.min_acked))
        if cap.version < 0:
            return None
        commits.caps.add(cap)
        self.changes += 1
        return cap

    def published_commit(self, query_id: bytes) -> Commit:
        """The newest published commit; version -1 for an unknown query."""
        commits = self._queries.get(query_id)
        return Commit(-1, 0, 0) if commits is None else commits.published

    def lift_cap(self, cap: CompactionCap) -> None:
        """Ends a cap; does nothing if it has ended, or its query was dropped."""
        commits = self._queries.get(cap.query_id)
        if commits is not None:
            commits.caps.discard(cap)
            self.changes += 1

    def published_version(self, query_id: bytes) -> coordinator_pb2.QueryVersion | None:
        """The published version as leases and begins carry it; None for an unknown query."""
        commits = self._queries.get(query_id)
        if commits is None:
            return None
        return coordinator_pb2.QueryVersion(
            query_id=query_id,
            version=commits.published.version,
            commit_time_ms=commits.published.commit_time_ms,
            watermark_ms=commits.published.watermark_ms,
            stable_version=commits.min_acked,
        )

    def forget_server(self, server_id: str) -> None:
        """Forgets the acks of a server that has left."""
        for commits in self._queries.values():
            commits.acked.pop(server_id, None)
        self.changes += 1

    def drop(self, query_id: bytes) -> None:
        """Forgets a query."""
        self._queries.pop(query_id, None)
