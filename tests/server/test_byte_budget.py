"""Who holds much cannot keep others from little."""

from __future__ import annotations

from queryable_state.server.serving.byte_budget import SHARE_BYTES, ByteBudget

MUCH = 4 * SHARE_BYTES


def test_a_full_budget_lets_everybody_have_a_share_and_nobody_more() -> None:
    budget = ByteBudget(MUCH)
    assert budget.may_hold(MUCH)
    budget.take(MUCH)
    assert not budget.may_hold(SHARE_BYTES + 1)
    assert budget.may_hold(SHARE_BYTES)


def test_those_who_wait_are_called_once_there_is_room() -> None:
    budget = ByteBudget(MUCH)
    called: list[str] = []
    budget.take(MUCH + 1)
    budget.wait(lambda: called.append("first"))
    forgotten = called.clear
    budget.wait(forgotten)
    budget.forget(forgotten)
    budget.give(1)
    assert not called
    budget.give(1)
    assert called == ["first"]
    budget.give(1)
    assert called == ["first"]
