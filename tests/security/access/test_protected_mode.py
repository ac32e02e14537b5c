"""Listeners beyond this machine: what they need, and what an error says."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from queryable_state.server.coordinator.settings import CoordinatorSettings
from queryable_state.server.security.access.access_settings import AccessSettings
from queryable_state.server.security.access.protected_mode import check_listener
from queryable_state.server.testing.cluster import InProcessCluster
from queryable_state.server.testing.coordinator import in_process_coordinator
from queryable_state.wire.addresses import is_loopback
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from pathlib import Path


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


async def test_a_proxy_beyond_the_loopback_address_needs_protection(
    cluster: InProcessCluster, tmp_path: Path
) -> None:
    with pytest.raises(InvalidRequestError, match=r"proxy port would listen on 0\.0\.0\.0.*TLS"):
        await cluster.add_proxy(host="0.0.0.0")
    insecure = AccessSettings(access_file=str(tmp_path / "access.toml"), insecure=True)
    await cluster.add_proxy(host="0.0.0.0", access=insecure)


@pytest.mark.parametrize("insecure", [False, True])
def test_a_coordinator_beyond_the_loopback_address_needs_tls(insecure: bool) -> None:
    settings = CoordinatorSettings(host="0.0.0.0", ports="0", insecure=insecure)
    with contextlib.ExitStack() as stack:
        if not insecure:
            stack.enter_context(pytest.raises(InvalidRequestError, match="coordinator would"))
        stack.enter_context(in_process_coordinator(settings=settings))


async def test_a_state_server_beyond_the_loopback_address_needs_protection(
    tmp_path: Path,
) -> None:
    with pytest.raises(InvalidRequestError, match=r"query port would listen.*access_file"):
        async with InProcessCluster(tmp_path, host="0.0.0.0"):
            pass
    async with InProcessCluster(tmp_path, host="0.0.0.0", access=AccessSettings(insecure=True)):
        pass
