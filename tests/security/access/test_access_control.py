"""Callers of one process: who they are, and what happens when the files change."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

import pytest
from tests.security.access.issuers import AUDIENCE, ISSUER, Issuer, key_server
from tests.waiting import eventually

from queryable_state.server.security.access import access_control, jwt_keys
from queryable_state.server.security.access.access_control import AccessControl
from queryable_state.server.security.access.access_file import read_access_file
from queryable_state.server.security.access.access_settings import AccessSettings
from queryable_state.server.security.access.grants import Kind, StateName
from queryable_state.server.security.access.tokens import digest_of
from queryable_state.wire.errors import AuthenticationError, InvalidRequestError, RetryLaterError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from queryable_state.server.security.access.access_rules import AccessRules

TOKEN = "qst_dashboard"
RULES = f"""
[tokens]
dashboard = "{digest_of(TOKEN)}"
[[grants]]
callers = ["dashboard", "alice"]
jobs = ["*"]
states = ["last"]
kinds = ["read"]
[[grants]]
roles = ["sre"]
jobs = ["*"]
states = ["*"]
kinds = ["admin"]
"""
LAST = StateName("00", "sensors", "last")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "access.toml"
    path.write_text(RULES)
    return path


def with_jwt(file: Path, keys: str) -> AccessSettings:
    return AccessSettings(
        access_file=str(file), jwt_keys=keys, jwt_issuer=ISSUER, jwt_audience=AUDIENCE
    )


@contextlib.asynccontextmanager
async def following(access: AccessControl) -> AsyncIterator[None]:
    task = asyncio.create_task(access.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def write(file: Path, text: str) -> None:
    file.write_text(text)


async def test_a_token_names_its_caller_whatever_the_case_of_the_scheme(file: Path) -> None:
    access = AccessControl(AccessSettings(access_file=str(file)))
    for header in (f"Bearer {TOKEN}", f"bearer {TOKEN}"):
        caller = await access.authenticate(header)
        assert caller.name == "dashboard"
        assert Kind.READ in caller.grants.kinds(LAST)
        assert access.cached(header) is caller


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        ("", "has no token"),
        ("Basic dXNlcg==", "Bearer"),
        ("Bearer ", "Bearer"),
        ("Bearer other", "not known"),
        ("Signed whatever", "Bearer"),
        ("Bearer a.b.c", "not known"),
    ],
)
async def test_who_has_no_valid_token_is_told_how_to_send_one(
    file: Path, header: str, problem: str
) -> None:
    access = AccessControl(AccessSettings(access_file=str(file)))
    for _ in range(3):
        with pytest.raises(AuthenticationError, match=problem) as refused:
            await access.authenticate(header)
        assert "dXNlcg" not in str(refused.value)
    assert access.denials.counts.total() == 3


async def test_denials_are_logged_once_in_a_while(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    access = AccessControl(AccessSettings(access_file=str(file)))
    for _ in range(100):
        with pytest.raises(AuthenticationError):
            await access.authenticate("Bearer forged")
    assert access.denials.counts["unknown token"] == 100
    assert len([r for r in caplog.records if "refusing a call" in r.message]) <= 1


async def test_callers_without_a_token_are_admitted_only_if_the_file_says_so(file: Path) -> None:
    write(file, "anonymous = true\n" + RULES)
    access = AccessControl(AccessSettings(access_file=str(file)))
    caller = await access.authenticate("")
    assert caller.name == "anonymous"
    assert not caller.grants.kinds(LAST)


async def test_jwt_callers_get_grants_by_name_and_by_role(file: Path, tmp_path: Path) -> None:
    issuer = Issuer()
    keys = tmp_path / "keys.json"
    keys.write_bytes(issuer.jwks())
    access = AccessControl(with_jwt(file, str(keys)))
    alice = await access.authenticate(f"Bearer {issuer.token()}")
    assert alice.grants.kinds(LAST) == Kind.READ | Kind.LIST
    bob = await access.authenticate(f"Bearer {issuer.token(sub='bob', roles='sre')}")
    assert bob.grants.kinds(LAST) == Kind.ADMIN | Kind.LIST
    eve = await access.authenticate(f"Bearer {issuer.token(sub='eve')}")
    assert not eve.grants.kinds(LAST)
    for name in ("dashboard", "anonymous"):
        with pytest.raises(AuthenticationError, match="name of a static token"):
            await access.authenticate(f"Bearer {issuer.token(sub=name)}")


async def test_an_expired_jwt_is_no_longer_cached(file: Path, tmp_path: Path) -> None:
    issuer = Issuer()
    keys = tmp_path / "keys.json"
    keys.write_bytes(issuer.jwks())
    now_s = time.time()
    access = AccessControl(with_jwt(file, str(keys)), clock=lambda: now_s)
    header = f"Bearer {issuer.token()}"
    caller = await access.authenticate(header)
    assert access.is_valid(caller)
    now_s += 75
    assert not access.is_valid(caller)
    assert access.cached(header) is None
    with pytest.raises(AuthenticationError, match="expired"):
        await access.authenticate(header)


async def test_keys_of_a_url_are_fetched_off_the_loop_when_they_are_needed(file: Path) -> None:
    issuer = Issuer()
    with key_server(issuer.jwks()) as served:
        served.wait.clear()
        access = AccessControl(with_jwt(file, served.url))
        header = f"Bearer {issuer.token()}"
        waiting = [asyncio.create_task(access.authenticate(header)) for _ in range(10)]
        for _ in range(5):
            await asyncio.sleep(0.01)
        with pytest.raises(RetryLaterError):
            access.authenticate_now(header)
        served.wait.set()
        for task in waiting:
            assert (await task).name == "alice"
        assert served.asked == 1
        assert access.authenticate_now(header).name == "alice"


async def test_a_key_that_the_issuer_withdrew_is_not_valid_for_tokens_seen_before(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jwt_keys, "_PAUSE_S", 0.0)
    with key_server((issuer := Issuer()).jwks()) as served:
        access = AccessControl(with_jwt(file, served.url))
        headers = [f"Bearer {issuer.token(algorithm)}" for algorithm in ("RS256", "ES256")]
        callers = [await access.authenticate(header) for header in headers]
        assert access._jwt is not None
        await access._jwt.keys.refresh()
        assert [access.is_valid(caller) for caller in callers] == [True, True]
        served.answer = issuer.jwks("ES256")
        await access._jwt.keys.refresh()
        assert not any(map(access.is_valid, callers))
        assert [access.cached(header) for header in headers] == [None, None]
        with pytest.raises(AuthenticationError, match="not one of its issuer"):
            await access.authenticate(headers[0])
        assert (await access.authenticate(headers[1])).name == "alice"


async def test_a_withdrawn_token_and_a_new_grant_take_effect_without_a_restart(
    file: Path,
) -> None:
    access = AccessControl(AccessSettings(access_file=str(file)))
    header = f"Bearer {TOKEN}"
    caller = await access.authenticate(header)
    async with following(access):
        write(file, RULES.replace('states = ["last"]', 'states = ["last", "seen"]'))
        await eventually(lambda: access.generation == 2)
        assert not access.is_valid(caller)
        again = await access.authenticate(header)
        assert again.grants.kinds(StateName("00", "sensors", "seen"))
        write(file, RULES.replace("dashboard =", "other ="))
        await eventually(lambda: access.generation == 3)
        assert (await access.authenticate(header)).name == "other"
        write(file, "")
        await eventually(lambda: access.generation == 4)
        with pytest.raises(AuthenticationError):
            await access.authenticate(header)


async def test_a_broken_file_keeps_the_rules_and_costs_one_line(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def lines() -> list[str]:
        return [r.message for r in caplog.records if "keeps its rules" in r.message]

    access = AccessControl(AccessSettings(access_file=str(file)))
    async with following(access):
        write(file, "[tokens")
        await eventually(lambda: len(lines()) == 1)
        assert (await access.authenticate(f"Bearer {TOKEN}")).name == "dashboard"
        file.unlink()  # noqa: ASYNC240 - a local file
        await eventually(lambda: len(lines()) == 2)
        assert (await access.authenticate(f"Bearer {TOKEN}")).name == "dashboard"
        write(file, RULES + "\n# mended\n")
        await eventually(lambda: access.generation == 2)
    assert len(lines()) == 2


@pytest.mark.parametrize(
    "problem", [InvalidRequestError("Permission denied"), MemoryError("too much")]
)
async def test_a_change_that_could_not_be_read_is_tried_again_and_logged_once(
    file: Path,
    problem: Exception,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(access_control, "_RETRY_S", 0.2)
    refusals = 3

    def read(path: str) -> AccessRules:
        nonlocal refusals
        refusals -= 1
        if refusals >= 0:
            raise problem
        return read_access_file(path)

    access = AccessControl(AccessSettings(access_file=str(file)))
    monkeypatch.setattr(access_control, "read_access_file", read)
    async with following(access):
        write(file, "")
        await eventually(lambda: access.generation == 2)
    with pytest.raises(AuthenticationError):
        await access.authenticate(f"Bearer {TOKEN}")
    assert len([each for each in caplog.messages if str(problem) in each]) == 1


async def test_a_change_of_the_mode_alone_is_a_change(file: Path) -> None:
    access = AccessControl(AccessSettings(access_file=str(file)))
    async with following(access):
        file.chmod(0o600)  # noqa: ASYNC240 - a local file
        await eventually(lambda: access.generation == 2)


@pytest.mark.parametrize(
    "text", ["a = " + "9" * 5000, "a = " + "[" * 5000], ids=["digits", "depth"]
)
async def test_no_content_of_the_file_ends_the_watch(
    file: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    access = AccessControl(AccessSettings(access_file=str(file)))
    async with following(access):
        write(file, text)
        await eventually(lambda: "keeps its rules" in caplog.text)
        write(file, "")
        await eventually(lambda: access.generation == 2)
    with pytest.raises(AuthenticationError):
        await access.authenticate(f"Bearer {TOKEN}")


@pytest.mark.parametrize("missing", ["access_file", "jwt_issuer", "jwt_audience"])
def test_jwt_settings_belong_together(file: Path, missing: str) -> None:
    fields = {
        "access_file": str(file),
        "jwt_issuer": ISSUER,
        "jwt_audience": AUDIENCE,
        "jwt_keys": "keys.json",
    }
    with pytest.raises(InvalidRequestError, match=rf"spark\.queryable_state\.{missing}"):
        AccessControl(AccessSettings(**(fields | {missing: ""})))  # type: ignore[arg-type]


def test_keys_that_cannot_be_read_are_an_error_at_once(file: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="jwt_keys"):
        AccessControl(with_jwt(file, str(tmp_path / "none")))
