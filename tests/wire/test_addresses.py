"""Text of addresses: what is accepted, and what the errors say."""

from __future__ import annotations

import pytest

from queryable_state.wire.addresses import (
    host_and_port,
    is_loopback,
    is_wildcard,
    join_address,
    parse_address,
    parse_addresses,
    parse_host,
    parse_port,
)
from queryable_state.wire.errors import InvalidRequestError


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("localhost", "localhost"),
        ("proxy-1.queries.svc.cluster.local.", "proxy-1.queries.svc.cluster.local."),
        ("my_host", "my_host"),
        ("10.0.0.7", "10.0.0.7"),
        ("::1", "::1"),
        ("[::1]", "::1"),
        (" fe80::1%eth0 ", "fe80::1%eth0"),
    ],
)
def test_a_host_is_a_name_or_an_ip_address(text: str, host: str) -> None:
    assert parse_host(text, "host") == host


@pytest.mark.parametrize(
    ("text", "mend"),
    [
        ("", "use a name or an IP address"),
        ("localhost:9069", r"has a port: give the host alone \('localhost'\) .* \(9069\)"),
        ("http://localhost:9069", r"a URL of http: leave out the scheme .* 'localhost:9069'"),
        ("dns:///proxy", "a URL of dns"),
        ("two words", "use a name or an IP address"),
        ("unix:/tmp/socket", "has a port"),
        ("-x", "use a name or an IP address"),
        ("::1:9069", r"did you mean \[::1\]:9069\?"),
    ],
)
def test_what_is_no_host_is_refused_with_the_mend(text: str, mend: str) -> None:
    with pytest.raises(InvalidRequestError, match=mend):
        parse_host(text, "host")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:1", ("localhost", 1)),
        ("proxy", ("proxy", 9069)),
        ("::1", ("::1", 9069)),
        ("[::1]", ("::1", 9069)),
        ("[::1]:7", ("::1", 7)),
    ],
)
def test_an_address_is_a_host_with_a_port_or_the_default_one(
    text: str, address: tuple[str, int]
) -> None:
    assert parse_address(text, "server", 9069) == address
    assert host_and_port(join_address(*address)) == address


@pytest.mark.parametrize(
    ("text", "mend"),
    [
        ("", "use HOST or HOST:PORT"),
        (":9069", "use HOST or HOST:PORT"),
        ("a:", "'' is not a port"),
        ("a:0", "0 is not a port to connect to: use a number from 1 to 65535"),
        ("a:70000", "from 1 to 65535"),
        ("a:x", "'x' is not a port"),
        ("a:1:2", "use HOST or HOST:PORT"),
        ("http://a:1", "leave out the scheme"),
    ],
)
def test_what_is_no_address_is_refused_with_the_mend(text: str, mend: str) -> None:
    with pytest.raises(InvalidRequestError, match=mend):
        parse_address(text, "server", 9069)


def test_without_a_default_an_address_needs_its_port() -> None:
    with pytest.raises(InvalidRequestError, match=r"'::1' has no port: use .*\[::1\]:9069"):
        parse_address("::1", "server")


def test_several_addresses_stand_in_a_list_or_with_commas() -> None:
    several = ["a:1", "b:9069", "[::1]:9069"]
    assert parse_addresses("a:1,b,::1", "server", 9069) == several
    assert parse_addresses(["a:1", "b, ::1", "a:1"], "server", 9069) == several
    nothing: list[list[str] | str] = [[], "", "a:1,"]
    for each in nothing:
        with pytest.raises(InvalidRequestError):
            parse_addresses(each, "server", 9069)


@pytest.mark.parametrize("port", [0, -1, 70_000, True, "x", None, 1.5])
def test_what_is_no_port_is_refused(port: object) -> None:
    with pytest.raises(InvalidRequestError, match=r"port: .* from 1 to 65535"):
        parse_port(port, "port")


def test_wildcards_and_loopback_addresses_are_known() -> None:
    assert all(map(is_wildcard, ("0.0.0.0", "::", "[::]")))
    assert all(map(is_loopback, ("localhost", "127.0.0.2", "::1", "[::1]")))
    assert not any(map(is_wildcard, ("localhost", "10.0.0.1")))
    assert not any(map(is_loopback, ("0.0.0.0", "10.0.0.1", "proxy")))
