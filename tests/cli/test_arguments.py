"""What the arguments of commands mean to the client."""

from __future__ import annotations

import pytest

from queryable_state.cli import main, parser
from queryable_state.cli.arguments import SERVER_VARIABLE, read_options, servers_of
from queryable_state.cli.exit_codes import CONFIGURATION
from queryable_state.client import Consistency, InvalidRequestError
from queryable_state.client._client import DEFAULT_PORT, DEFAULT_TIMEOUT_S
from queryable_state.wire.keys.time_window import TimeWindow


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["somewhere"], ["somewhere:9069"]),
        (["somewhere:1"], ["somewhere:1"]),
        (["127.0.0.1:9067"], ["127.0.0.1:9067"]),
        (["[::1]"], ["[::1]:9069"]),
        (["::1"], ["[::1]:9069"]),
        (["a,b:1"], ["a:9069", "b:1"]),
        (["a", "b:1, c"], ["a:9069", "b:1", "c:9069"]),
    ],
)
def test_servers_are_hosts_with_or_without_a_port(given: list[str], expected: list[str]) -> None:
    arguments = [part for server in given for part in ("--server", server)]
    assert servers_of(parser().parse_args(["jobs", *arguments])) == expected


@pytest.mark.parametrize("given", [":9069", "a:b", "a:0", "a:65536", "a:1:2", "[]:1", "http://a"])
def test_what_is_no_server_is_refused(given: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"--server '.*use|--server '.*leave out"):
        servers_of(parser().parse_args(["jobs", "--server", given]))


def test_the_environment_names_the_server_where_no_argument_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(SERVER_VARIABLE, raising=False)
    assert servers_of(parser().parse_args(["jobs"])) == [f"localhost:{DEFAULT_PORT}"]
    monkeypatch.setenv(SERVER_VARIABLE, "there:1,here")
    assert servers_of(parser().parse_args(["jobs"])) == ["there:1", "here:9069"]
    assert servers_of(parser().parse_args(["jobs", "--server", "here"])) == ["here:9069"]


def test_the_client_has_as_much_time_as_it_would_take() -> None:
    assert parser().parse_args(["jobs"]).timeout == DEFAULT_TIMEOUT_S


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], Consistency.COMMITTED),
        (["--uncommitted"], Consistency.UNCOMMITTED),
        (["--at-least", "0"], Consistency.at_least(0)),
        (["--within", "1.5"], Consistency.within(1.5)),
    ],
)
def test_which_batches_may_answer(arguments: list[str], expected: Consistency) -> None:
    options = parser().parse_args(["get", "last", "k", *arguments])
    assert read_options(options) == {
        "consistency": expected,
        "window": None,
        "allow_incomplete": False,
    }


@pytest.mark.parametrize(
    "given",
    [
        "1359626400000/1359626700000",
        "2013-01-31T10:00:00Z/2013-01-31T10:05:00Z",
        "2013-01-31T10:00/2013-01-31T10:05",
        "2013-01-31T11:00:00+01:00/1359626700000",
    ],
)
def test_windows_are_times_or_milliseconds(given: str) -> None:
    options = parser().parse_args(["get", "last", "k", "--window", given])
    assert read_options(options)["window"] == TimeWindow(1359626400000, 1359626700000)


def test_what_is_no_server_leaves_with_a_code_that_supervisors_do_not_restart(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words in (["proxy", "--lameduck-s", "1"], ["serve", "--checkpoint"], ["proxy", "one"]):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == CONFIGURATION
        assert "usage:" in capsys.readouterr().err
    with pytest.raises(SystemExit) as helped:
        main(["proxy", "--help"])
    assert helped.value.code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["get", "last"],
        ["get", "last", "k", "--uncommitted", "--at-least", "1"],
        ["get", "last", "k", "--exists", "--size"],
        ["get", "last", "k", "--at-least", "soon"],
        ["completion", "cobol"],
    ],
)
def test_what_is_no_command_leaves_with_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(arguments)
    assert ended.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_keys_may_begin_with_a_dash() -> None:
    assert parser().parse_args(["get", "last", "-7"]).key == "-7"
    assert parser().parse_args(["get", "last", "--json", "--", "--key"]).key == "--key"
    assert parser().parse_args(["mget", "last", "--", "--a", "-b"]).keys == ["--a", "-b"]
