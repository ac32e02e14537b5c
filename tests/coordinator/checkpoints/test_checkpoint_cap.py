"""What is stable while snapshots hold it back."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from queryable_state.server.coordinator.model.commits import Commit, Commits, CompactionCap

QUERY = b"q" * 16
SERVERS = ("a", "b")


class CappedCommits(RuleBasedStateMachine):
    """Commits, confirmations and caps in any order, against what was promised for each cap."""

    def __init__(self) -> None:
        super().__init__()
        self.commits = Commits()
        self.caps: dict[CompactionCap, int] = {}
        self.newest = -1
        self.stable = -1

    @initialize()
    def enter(self) -> None:
        self.commits.enter(QUERY, Commit(-1, 0, 0))

    @rule()
    def commit_and_push(self) -> None:
        self.newest += 1
        self.commits.advance(QUERY, Commit(self.newest, 0, 0))
        commit_round = self.commits.begin_round(QUERY, b"r" * 16, {})
        assert commit_round is not None
        self.commits.end_round(commit_round)

    @rule(server=st.sampled_from(SERVERS))
    def confirm(self, server: str) -> None:
        self.commits.ack(QUERY, server, self.newest)
        self.commits.advance_min_acked(QUERY, SERVERS)

    @rule()
    def cap(self) -> None:
        cap = self.commits.cap_compaction(QUERY)
        assert (cap is None) == (self.newest < 0)
        if cap is not None:
            assert cap.version == self.newest
            self.caps[cap] = cap.version

    @precondition(lambda self: self.caps)
    @rule(data=st.data())
    def lift(self, data: st.DataObject) -> None:
        cap = data.draw(st.sampled_from(sorted(self.caps, key=lambda cap: cap.version)))
        self.commits.lift_cap(cap)
        self.commits.lift_cap(cap)
        del self.caps[cap]

    @rule()
    def lose_a_server(self) -> None:
        self.commits.forget_server("b")
        self.commits.advance_min_acked(QUERY, ["a"])

    @invariant()
    def nothing_above_a_cap_is_stable(self) -> None:
        stable = self.commits.min_acked(QUERY)
        assert all(stable <= version for version in self.caps.values())
        assert self.stable <= stable <= self.newest
        self.stable = stable

    def teardown(self) -> None:
        for cap in self.caps:
            self.commits.lift_cap(cap)
        for server in SERVERS:
            self.commits.ack(QUERY, server, self.newest)
        self.commits.advance_min_acked(QUERY, SERVERS)
        assert self.commits.min_acked(QUERY) == self.newest


TestCappedCommits = CappedCommits.TestCase
TestCappedCommits.settings = settings(max_examples=60, stateful_step_count=30)


def test_a_cap_of_a_dropped_query_is_lifted_without_a_word() -> None:
    commits = Commits()
    commits.enter(QUERY, Commit(3, 0, 0))
    cap = commits.cap_compaction(QUERY)
    assert cap is not None
    commits.drop(QUERY)
    commits.lift_cap(cap)
    commits.enter(QUERY, Commit(5, 0, 0))
    assert commits.min_acked(QUERY) == 5
