"""The access file: what it means, and what it says of mistakes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queryable_state.server.security.access.access_file import read_access_file
from queryable_state.server.security.access.grants import Kind, StateName
from queryable_state.server.security.access.tokens import digest_of, new_token
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from pathlib import Path

DIGEST = digest_of("qst_test")


def test_a_file_has_tokens_grants_and_limits(tmp_path: Path) -> None:
    path = tmp_path / "access.toml"
    path.write_text(
        f"""
        anonymous = true
        [tokens]
        dashboard = "{DIGEST}"
        loader = ["{digest_of("old")}", "{digest_of("new")}"]
        [[grants]]
        callers = ["dash*"]
        jobs = ["flights"]
        states = ["delay*"]
        kinds = ["read", "scan"]
        [[limits]]
        callers = ["dashboard"]
        queries_per_s = 100
        [jwt]
        algorithms = ["ES256"]
        roles_claim = "realm_access.roles"
        """
    )
    rules = read_access_file(str(path))
    assert rules.tokens[DIGEST] == "dashboard"
    assert rules.tokens[digest_of("old")] == rules.tokens[digest_of("new")] == "loader"
    assert rules.anonymous
    grants = rules.grants_of("dashboard")
    assert grants.kinds(StateName("", "flights", "delays")) == Kind.READ | Kind.SCAN | Kind.LIST
    assert not grants.kinds(StateName("", "other", "delays"))
    assert not rules.grants_of("loader").kinds(StateName("", "flights", "delays"))
    assert rules.limits[0].queries_per_s == 100
    assert rules.jwt.algorithms == ("ES256",)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("grant = []", "did you mean 'grants'"),
        ("[tokens]\na = 'secret'", "64 hex digits"),
        (f"[tokens]\na = '{DIGEST}'\nb = '{DIGEST}'", "'a' has the same token"),
        (f"[tokens]\nanonymous = '{DIGEST}'", "use another"),
        ("[[grants]]\njobs=['*']\nstates=['*']\nkinds=['read']", r"grants\[0\].callers"),
        ("[[grants]]\ncallers=['*']\nstates=['*']\nkinds=['read']", r"grants\[0\].jobs"),
        (
            "[[grants]]\ncallers=['*']\njobs=['*']\nstates=['*']\nkinds=['write']",
            "'write' is none of read, scan, list, admin",
        ),
        ("[[grants]]\ncallers='*'\njobs=['*']\nstates=['*']\nkinds=['read']", "list of texts"),
        ("[[limits]]\ncallers=['*']", "set one of queries_per_s"),
        ("[[limits]]\nqueries_per_s=0", "above 0"),
        ("[[limits]]\njobs=['a']\nqueries_per_s=1", "states"),
        ("[jwt]\nalgorithms=['none']", "'none' is none of RS256"),
        ("anonymous = 1", "true or false"),
        ("[tokens", "not valid TOML"),
        ("tokens = 3", "write a table"),
        (f"anonymous = {'9' * 5000}", "not valid TOML: Exceeds the limit"),
        (f"grants = {'[' * 5000}", "not valid TOML: maximum recursion"),
    ],
    ids=lambda value: value[:40],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "access.toml"
    path.write_text(text)
    with pytest.raises(InvalidRequestError, match=problem) as refused:
        read_access_file(str(path))
    assert str(path) in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_missing_file_is_named_with_its_setting(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match=r"spark\.queryable_state\.access_file"):
        read_access_file(str(tmp_path / "none.toml"))


def test_tokens_are_random_and_are_sent_as_they_are() -> None:
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(each.isascii() and " " not in each and len(each) > 40 for each in tokens)
