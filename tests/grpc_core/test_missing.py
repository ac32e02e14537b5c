"""The check that the installed grpcio has the core this server is written for."""

from __future__ import annotations

import pytest

from queryable_state.server.grpc_core.missing import missing


def test_the_installed_grpcio_has_the_core_that_is_known() -> None:
    assert missing() == ""


@pytest.mark.parametrize(
    ("module", "text"), [("grpc._cython.gone", "gone"), ("grpc.aio", "Server")]
)
def test_another_core_is_named_before_a_server_is_made(module: str, text: str) -> None:
    assert text in missing(module)
