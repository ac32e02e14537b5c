"""Listeners beyond this machine: what they need, and what an error says."""

from __future__ import annotations

import pytest

from queryable_state.server.security.access.protected_mode import check_listener, is_loopback
from queryable_state.wire.errors import InvalidRequestError


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.0.0.2", True),
        ("localhost", True),
        ("::1", True),
        ("[::1]", True),
        ("0.0.0.0", False),
        ("::", False),
        ("", False),
        ("10.1.2.3", False),
        ("no-such-host.invalid", False),
    ],
)
def test_only_the_loopback_address_is_of_this_machine_alone(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def refused(*, encrypted: bool, authenticated: bool | None) -> str:
    with pytest.raises(InvalidRequestError) as problem:
        check_listener(
            "0.0.0.0",
            what="proxy port",
            encrypted=encrypted,
            authenticated=authenticated,
            insecure=False,
        )
    return str(problem.value)


def test_a_public_port_needs_tls_and_authentication() -> None:
    text = refused(encrypted=False, authenticated=False)
    for setting in ("tls_certificate", "access_file", "insecure", "0.0.0.0", "proxy port"):
        assert setting in text
    assert "tls" not in refused(encrypted=True, authenticated=False).replace("--tls", "tls")
    assert "access_file" not in refused(encrypted=False, authenticated=True)


def test_a_port_of_the_application_needs_tls() -> None:
    text = refused(encrypted=False, authenticated=None)
    assert "tls_certificate" in text
    assert "access_file" not in text


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_local_mode_needs_nothing(host: str) -> None:
    check_listener(host, what="proxy port", encrypted=False, authenticated=False, insecure=False)


def test_who_says_insecure_aloud_gets_it() -> None:
    check_listener(
        "0.0.0.0", what="proxy port", encrypted=False, authenticated=False, insecure=True
    )


def test_a_protected_listener_is_accepted() -> None:
    check_listener("::", what="proxy port", encrypted=True, authenticated=True, insecure=False)
    check_listener("::", what="coordinator", encrypted=True, authenticated=None, insecure=False)
