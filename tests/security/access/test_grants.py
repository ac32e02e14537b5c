"""Grants against a naive model, and what they let a caller know."""

from __future__ import annotations

import fnmatch
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryable_state.server.security.access.grants import (
    ANONYMOUS,
    EVERYTHING,
    Grant,
    Grants,
    JobPattern,
    Kind,
    NamePattern,
    StateName,
)
from queryable_state.server.security.admission.limit import Limit

LETTERS = "ab.[*"
PATTERNS = st.lists(st.text(LETTERS, max_size=4), min_size=1, max_size=3)
NAMES = st.text("ab.[", min_size=1, max_size=4)
KINDS = st.sampled_from([Kind.READ, Kind.SCAN, Kind.LIST, Kind.ADMIN, Kind.READ | Kind.SCAN])
ENTRIES = st.lists(st.tuples(PATTERNS, PATTERNS, PATTERNS, KINDS), max_size=4)
JOB_ID = "0123456789abcdef0123456789abcdef"


def matches(patterns: list[str], name: str) -> bool:
    """By the shell's rules, with every special character but `*` made plain."""
    return any(
        fnmatch.fnmatchcase(name, each.replace("[", "[[]").replace("?", "[?]")) for each in patterns
    )


@given(entries=ENTRIES, caller=NAMES, job=NAMES, state=NAMES)
def test_what_is_allowed_is_the_union_of_the_matching_grants(
    entries: list[tuple[list[str], list[str], list[str], Kind]], caller: str, job: str, state: str
) -> None:
    grants = [
        Grant(
            callers=NamePattern(callers),
            roles=frozenset(),
            jobs=JobPattern(jobs),
            states=NamePattern(states),
            kinds=kinds,
        )
        for callers, jobs, states, kinds in entries
    ]
    expected = Kind.NONE
    for callers, jobs, states, kinds in entries:
        if matches(callers, caller) and matches(jobs, job) and matches(states, state):
            expected |= kinds | Kind.LIST
    mine = Grants(grant for grant in grants if grant.is_for(caller, frozenset()))
    found = mine.kinds(StateName(JOB_ID, job, state))
    assert found == expected
    if found:
        assert mine.lists_unknown(job, state)


def grant(jobs: str, states: str, kinds: Kind = Kind.READ, roles: tuple[str, ...] = ()) -> Grant:
    return Grant(
        callers=NamePattern([] if roles else ["me"]),
        roles=frozenset(roles),
        jobs=JobPattern([jobs]),
        states=NamePattern([states]),
        kinds=kinds,
    )


def test_nothing_is_allowed_without_a_grant() -> None:
    assert Grants([]).kinds(StateName(JOB_ID, "job", "state")) == Kind.NONE


def test_a_role_gives_what_a_name_gives() -> None:
    by_role = grant("*", "*", roles=("sre",))
    assert by_role.is_for("anyone", frozenset({"sre", "dev"}))
    assert not by_role.is_for("sre", frozenset({"dev"}))


@pytest.mark.parametrize("kind", [Kind.READ, Kind.SCAN, Kind.ADMIN])
def test_who_may_use_a_state_may_see_it(kind: Kind) -> None:
    assert Kind.LIST in Grants([grant("j", "s", kind)]).kinds(StateName(JOB_ID, "j", "s"))


def test_only_a_grant_of_all_jobs_tells_that_a_state_exists_in_no_job() -> None:
    one_job = Grants([grant("flights", "*")])
    assert one_job.lists_unknown("flights", "delay")
    assert not one_job.lists_unknown("", "delay")
    assert not one_job.lists_unknown("other", "delay")
    assert Grants([grant("*", "delay*")]).lists_unknown("", "delays")
    assert not Grants([grant("*", "delay*")]).lists_unknown("", "other")


@pytest.mark.parametrize(
    "pattern", ["01*", "*ef", "*EF", "*ab*", "*-*", " *", f"{JOB_ID[:-1]}*", JOB_ID[:-1]]
)
def test_ids_of_jobs_are_random_and_match_no_pattern(pattern: str) -> None:
    grants = Grants([grant(pattern, "*")])
    assert not grants.kinds(StateName(JOB_ID, "payroll", "s"))
    assert not grants.lists_all_of("payroll", JOB_ID)
    for spelt in (JOB_ID, JOB_ID.upper(), str(UUID(JOB_ID)), f" {JOB_ID}"):
        assert not grants.lists_unknown(spelt, "s")
    limit = Limit(jobs=JobPattern([pattern]), states=NamePattern(["*"]), queries_per_s=1)
    assert not limit.applies_to("me", StateName(JOB_ID, "payroll", "s"))


@pytest.mark.parametrize("pattern", [JOB_ID, "*"])
def test_a_whole_id_stands_for_its_job_and_a_star_for_every_job(pattern: str) -> None:
    grants = Grants([grant(pattern, "*")])
    assert grants.kinds(StateName(JOB_ID, "payroll", "s")) == Kind.READ | Kind.LIST
    assert grants.lists_all_of("payroll", JOB_ID)
    assert grants.lists_unknown(str(UUID(JOB_ID)), "s")
    limit = Limit(jobs=JobPattern([pattern]), states=NamePattern(["*"]), queries_per_s=1)
    assert limit.applies_to("me", StateName(JOB_ID, "payroll", "s"))


@pytest.mark.parametrize("pattern", ["*", "anon*", "*s"])
def test_a_star_is_no_grant_for_callers_without_a_token(pattern: str) -> None:
    everyone = replace(grant("*", "*"), callers=NamePattern([pattern]))
    assert not everyone.is_for(ANONYMOUS, frozenset())
    both = replace(everyone, callers=NamePattern([pattern, ANONYMOUS]))
    assert both.is_for(ANONYMOUS, frozenset())
    assert replace(everyone, callers=NamePattern(["*"])).is_for("alice", frozenset())


def test_a_limit_of_a_star_is_also_for_callers_without_a_token() -> None:
    limit = Limit(callers=NamePattern(["*"]), jobs=JobPattern(["*"]), queries_per_s=1)
    assert limit.applies_to(ANONYMOUS, StateName(JOB_ID, "j", "s"))


def test_parts_of_the_application_may_do_everything() -> None:
    kinds = EVERYTHING.kinds(StateName(JOB_ID, "any", "state"))
    assert kinds == Kind.READ | Kind.SCAN | Kind.LIST | Kind.ADMIN
