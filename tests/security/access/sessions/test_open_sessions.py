"""Frame connections end with the tokens of their callers, also while they wait or are idle."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.security.access.sessions.guarded_port import GuardedPort
from tests.security.access.sites import RULES, token
from tests.waiting import eventually

from queryable_state.server.security import open_sessions
from queryable_state.server.security.access import access_control
from queryable_state.server.security.access.tokens import digest_of
from queryable_state.wire.errors import AuthenticationError, Reason

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.query.streams import Frames

WITHOUT_READER = RULES.replace(digest_of(token("reader")), digest_of(token("replaced")))
BLIND_READER = RULES.replace('callers = ["reader"]', 'callers = ["nobody"]')


@pytest.fixture
async def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[GuardedPort]:
    monkeypatch.setattr(access_control, "_POLL_S", 0.01)
    monkeypatch.setattr(open_sessions, "_EVERY_S", 0.01)
    async with GuardedPort(tmp_path) as running:
        yield running


async def ended(frames: Frames) -> str:
    """Checks that a connection ends with UNAUTHENTICATED; returns the text."""
    refusal = await frames.refusal()
    assert isinstance(refusal, AuthenticationError)
    return refusal.message


@pytest.mark.parametrize("waits", [False, True])
async def test_a_connection_ends_with_its_jwt(port: GuardedPort, waits: bool) -> None:
    frames = await port.connect(port.jwt(life_s=60))
    if waits:
        await port.ask(frames, 1)
    # Neither the sweep nor the expiry depends on a file that can be read.
    port.write("[tokens")
    async with port.following(), port.sweeping():
        await asyncio.sleep(0.1)
        assert len(port.access.sessions) == 1
        port.now_s += 3600
        assert "expired" in await ended(frames)
    await eventually(lambda: len(port.access.sessions) == 0)


@pytest.mark.parametrize("waits", [False, True])
async def test_a_connection_ends_with_its_token(port: GuardedPort, waits: bool) -> None:
    frames = await port.connect(token("reader"))
    if waits:
        await port.ask(frames, 1)
    async with port.sweeping():
        await port.reload(WITHOUT_READER)
        assert "withdrawn" in await ended(frames)
    await eventually(lambda: len(port.access.sessions) == 0)


@pytest.mark.parametrize("last", [False, True])
async def test_no_answer_is_given_for_an_expired_jwt(port: GuardedPort, last: bool) -> None:
    frames = await port.connect(port.jwt(life_s=60))
    await port.ask(frames, 1)
    port.now_s += 3600
    port.router.answer(1, last=last)
    answer = (await frames.response()).answer
    assert (answer.id, answer.last) == (1, True)
    assert answer.error.reason == Reason.UNAUTHENTICATED
    assert not answer.values
    assert "expired" in await ended(frames)


async def test_no_answer_is_given_for_a_withdrawn_token(port: GuardedPort) -> None:
    frames = await port.connect(token("reader"))
    await port.ask(frames, 1)
    await port.reload(WITHOUT_READER)
    port.router.answer(1)
    answer = (await frames.response()).answer
    assert answer.error.reason == Reason.UNAUTHENTICATED
    assert not answer.values
    assert "withdrawn" in await ended(frames)


@pytest.mark.parametrize("swept", [False, True])
async def test_other_callers_do_not_notice_a_change_of_the_rules(
    port: GuardedPort, swept: bool
) -> None:
    connections = []
    for query_id, sent in enumerate((token("all"), port.jwt(life_s=600)), start=1):
        frames = await port.connect(sent)
        await port.ask(frames, query_id)
        connections.append((query_id, port.router.deliver, frames))
    await port.reload(WITHOUT_READER)
    if swept:
        async with port.sweeping():
            await asyncio.sleep(0.1)
    assert len(port.access.sessions) == 2
    for query_id, deliver, frames in connections:
        port.router.deliver = deliver
        port.router.answer(query_id, last=False)
        port.router.answer(query_id, part=1)
        parts = [(await frames.response()).answer for _ in range(2)]
        assert [part.values[0] for part in parts] == [b"fresh", b"fresh"]
        assert [part.last for part in parts] == [False, True]


async def test_a_lost_grant_refuses_the_query_and_keeps_the_connection(port: GuardedPort) -> None:
    frames = await port.connect(token("reader"))
    await port.ask(frames, 1)
    await port.ask(frames, 2)
    await port.reload(BLIND_READER)
    port.router.answer(1, last=False)
    port.router.answer(2)
    port.router.answer(1, part=1)
    for query_id in (2, 1):
        answer = (await frames.response()).answer
        assert (answer.id, answer.last) == (query_id, True)
        assert answer.error.reason == Reason.PERMISSION_DENIED
        assert not answer.values
    await port.reload(RULES)
    await port.ask(frames, 1)
    port.router.answer(1)
    assert (await frames.response()).answer.values == [b"fresh"]


async def test_closed_sessions_are_forgotten(port: GuardedPort) -> None:
    async with port.sweeping():
        opened = [await port.connect(token("reader")) for _ in range(20)]
        for frames in opened[:10]:
            await port.ask(frames, 1)
        assert len(port.access.sessions) == 20
        for frames in opened[5:]:
            frames.writer.close()
        await eventually(lambda: len(port.access.sessions) == 5)
        for frames in opened[:5]:
            frames.writer.transport.abort()
        await eventually(lambda: len(port.access.sessions) == 0)


async def test_a_defect_of_one_session_spares_the_others(
    port: GuardedPort, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def check(self) -> None:
            raise ValueError("a defect")

    for _ in range(20):
        port.access.sessions.add(Broken())
    frames = await port.connect(port.jwt(life_s=60))
    async with port.sweeping():
        port.now_s += 3600
        assert "expired" in await ended(frames)
    assert sum("cannot check a session" in record.message for record in caplog.records) <= 1


async def test_a_deadline_is_ten_minutes_at_most(port: GuardedPort) -> None:
    frames = await port.connect(token("reader"))
    await port.ask(frames, 1)
    assert port.router.asked[0].deadline_ms == 600_000
