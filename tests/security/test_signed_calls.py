"""Signatures of internal calls: what they prove, and what makes them worthless."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryable_state.server.security.signature_check import (
    TOLERANCE_MS,
    WINDOW,
    ReplayWindows,
    SignatureCheck,
)
from queryable_state.wire.errors import AuthenticationError, InvalidRequestError, Reason
from queryable_state.wire.packaging.protocol_versions import VersionRange
from queryable_state.wire.security import signed_calls
from queryable_state.wire.security.authorization import (
    Bearer,
    Signed,
    authorization_of,
    parse_authorization,
)
from queryable_state.wire.security.signed_calls import BACKEND, COORDINATOR, CallSigner

METHOD = f"/{BACKEND}/Commit"
START_MS = 1_800_000_000_000
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1, max_size=40)


class Clock:
    """A wall clock that a test sets."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


def signed(header: str) -> Signed:
    parsed = parse_authorization(header)
    assert isinstance(parsed, Signed)
    return parsed


@given(secret=NAMES.filter(str.strip), method=NAMES, audience=NAMES)
def test_a_call_of_the_holder_of_the_secret_is_accepted_once(
    secret: str, method: str, audience: str
) -> None:
    check = SignatureCheck(secret, audience, clock_ms=Clock())
    signer = CallSigner(secret, audience, clock_ms=Clock())
    header = signer.header(method)
    assert check.check(header, method).min_version == 1
    with pytest.raises(AuthenticationError, match="received this signature already"):
        check.check(header, method)
    check.check(signer.header(method), method)


@given(
    secrets=st.tuples(NAMES, NAMES).filter(lambda two: two[0].strip() and two[0] != two[1]),
    method=NAMES,
)
def test_another_secret_is_refused(secrets: tuple[str, str], method: str) -> None:
    header = CallSigner(secrets[0], clock_ms=Clock()).header(method)
    with pytest.raises(AuthenticationError, match="signed with another one"):
        SignatureCheck(secrets[1], clock_ms=Clock()).check(header, method)


@given(
    change=st.sampled_from(["min_version", "max_version", "time_ms", "number", "session", "mac"]),
    by=st.integers(1, 1_000),
    position=st.integers(0, 15),
)
def test_no_part_of_a_signature_can_be_changed(change: str, by: int, position: int) -> None:
    call = signed(CallSigner("secret", clock_ms=Clock()).header(METHOD))
    value: Any = getattr(call, change)
    if isinstance(value, int):
        value += by
    else:
        digit = "0" if value[position] != "0" else "1"
        value = value[:position] + digit + value[position + 1 :]
    fields: dict[str, Any] = {change: value}
    forged = replace(call, **fields)
    with pytest.raises(AuthenticationError, match="signed with another one"):
        SignatureCheck("secret", clock_ms=Clock()).check(str(forged), METHOD)


@given(method=NAMES, other=NAMES, audience=NAMES)
def test_a_signature_is_for_one_method_of_one_server(
    method: str, other: str, audience: str
) -> None:
    header = CallSigner("secret", audience, clock_ms=Clock()).header(method)
    if other != method:
        with pytest.raises(AuthenticationError):
            SignatureCheck("secret", audience, clock_ms=Clock()).check(header, other)
    with pytest.raises(AuthenticationError):
        SignatureCheck("secret", audience + "2", clock_ms=Clock()).check(header, method)


@given(late_ms=st.integers(-2 * TOLERANCE_MS, 2 * TOLERANCE_MS))
def test_a_stale_call_is_refused_with_the_clock_by_which_its_caller_corrects_itself(
    late_ms: int,
) -> None:
    clock = Clock(START_MS - 10 * TOLERANCE_MS)
    check = SignatureCheck("secret", clock_ms=clock)
    clock.now_ms = START_MS
    signer = CallSigner("secret", clock_ms=Clock(START_MS - late_ms))
    header = signer.header(METHOD)
    if abs(late_ms) <= TOLERANCE_MS:
        check.check(header, METHOD)
        return
    with pytest.raises(AuthenticationError, match="synchronize the clocks") as refused:
        check.check(header, METHOD)
    assert signer.corrects(refused.value)
    check.check(signer.header(METHOD), METHOD)


def test_a_refusal_for_another_reason_corrects_nothing() -> None:
    assert not CallSigner("secret").corrects(AuthenticationError("no"))


def test_what_an_earlier_server_received_is_refused_by_the_next_one() -> None:
    clock = Clock()
    header = CallSigner("secret", "host:9071", clock_ms=clock).header(METHOD)
    SignatureCheck("secret", "host:9071", clock_ms=clock).check(header, METHOD)
    clock.now_ms += 1
    restarted = SignatureCheck("secret", "host:9071", clock_ms=clock)
    with pytest.raises(AuthenticationError, match="before the start of the server"):
        restarted.check(header, METHOD)


def test_a_replay_is_refused_for_as_long_as_its_time_would_be_accepted() -> None:
    clock = Clock()
    check = SignatureCheck("secret", clock_ms=clock)
    ahead = CallSigner("secret", clock_ms=Clock(START_MS + TOLERANCE_MS)).header(METHOD)
    check.check(ahead, METHOD)
    for _ in range(2 * TOLERANCE_MS // 10_000 + 2):
        clock.now_ms += 10_000
        # Each of these makes the check forget old sessions.
        check.check(CallSigner("secret", clock_ms=clock).header(METHOD), METHOD)
        with pytest.raises(AuthenticationError):
            check.check(ahead, METHOD)


@given(st.lists(st.integers(1, 3 * WINDOW), max_size=60))
def test_a_number_is_new_once_in_any_order(numbers: list[int]) -> None:
    windows = ReplayWindows()
    seen: set[int] = set()
    for number in numbers:
        is_new = windows.is_new("s", number, 0)
        assert not (is_new and number in seen)
        if number > max(seen, default=0) - WINDOW and number not in seen:
            assert is_new
        seen.add(number)


def test_memory_does_not_grow_with_the_number_of_calls() -> None:
    clock = Clock()
    check = SignatureCheck("secret", clock_ms=clock)
    for _ in range(3):
        signers = [CallSigner("secret", clock_ms=clock) for _ in range(20)]
        for signer in signers * 10:
            check.check(signer.header(METHOD), METHOD)
        clock.now_ms += 2 * TOLERANCE_MS
    assert len(check._windows) <= 40


def test_a_forked_process_signs_with_numbers_of_its_own() -> None:
    signer = CallSigner("secret")
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        os.write(writing, signer.header(METHOD).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        child = signed(pipe.read())
    assert child.session != signed(signer.header(METHOD)).session


def test_the_secret_is_no_part_of_a_signature() -> None:
    signer = CallSigner("hunter2-hunter2")
    assert "hunter2" not in signer.header(METHOD)
    assert "hunter2" not in repr(signer.metadata(METHOD))


@pytest.mark.parametrize("header", ["Bearer abc.def-1_2~+/==", b"bearer  abc.def-1_2~+/=="])
def test_a_token_is_read(header: str | bytes) -> None:
    assert parse_authorization(header) == Bearer("abc.def-1_2~+/==")
    assert "abc" not in repr(parse_authorization(header))


@pytest.mark.parametrize("empty", ["", b""])
def test_a_call_without_authorization_has_none(empty: str | bytes) -> None:
    assert parse_authorization(empty) is None
    assert authorization_of(None) == ""
    assert authorization_of((("x", "1"), ("authorization", "Bearer t"))) == "Bearer t"


@pytest.mark.parametrize(
    "header",
    [
        "Basic dTpw",
        "Bearer",
        "Bearer a b",
        "Signed",
        "Signed 1-1 1 x 1 y",
        "Bearer " + "a" * 20_000,
    ],
)
def test_another_form_is_refused_without_showing_it(header: str) -> None:
    with pytest.raises(AuthenticationError, match="Bearer <token>") as refused:
        parse_authorization(header)
    assert "dTpw" not in refused.value.message


@given(st.one_of(st.text(), st.binary()))
def test_any_header_is_read_or_refused(header: str | bytes) -> None:
    try:
        parse_authorization(header)
    except AuthenticationError:
        pass


def test_a_client_with_a_token_is_told_that_the_port_is_not_for_it() -> None:
    with pytest.raises(AuthenticationError, match="processes of the application"):
        SignatureCheck("secret").check("Bearer abc", f"/{COORDINATOR}/ListJobs")


def test_an_empty_secret_signs_nothing() -> None:
    with pytest.raises(InvalidRequestError, match="must not be empty"):
        CallSigner(" ")


@pytest.mark.parametrize(
    ("spoken", "older"),
    [(VersionRange(0, 0), "the caller is older"), (VersionRange(7, 9), "this server is older")],
)
def test_a_caller_of_other_protocol_versions_is_told_which_side_to_upgrade(
    spoken: VersionRange, older: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only after its signature is checked: a stranger learns nothing of versions."""
    with monkeypatch.context() as patch:
        patch.setattr(signed_calls, "INTERNAL", spoken)
        header = CallSigner("secret", clock_ms=Clock()).header(METHOD)
        strange = CallSigner("guessed", clock_ms=Clock()).header(METHOD)
    check = SignatureCheck("secret", clock_ms=Clock())
    with pytest.raises(InvalidRequestError, match=rf"{older}; upgrade the package") as refusal:
        check.check(header, METHOD)
    assert refusal.value.reason == Reason.PROTOCOL_MISMATCH
    assert f"speaks {spoken}" in str(refusal.value)
    with pytest.raises(AuthenticationError):
        check.check(strange, METHOD)
