"""Ranges of protocol versions, and the version of the package."""

from __future__ import annotations

import subprocess
import sys

import pytest

import queryable_state.client
from queryable_state.cli import main
from queryable_state.wire.errors import Reason
from queryable_state.wire.packaging.protocol_versions import (
    FRAMES,
    INTERNAL,
    VersionRange,
    __version__,
    version_mismatch,
)


@pytest.mark.parametrize(
    ("mine", "other", "common"),
    [
        ((1, 1), (1, 1), 1),
        ((1, 3), (2, 5), 3),
        ((2, 5), (1, 3), 3),
        ((1, 9), (4, 4), 4),
        ((1, 2), (3, 4), 0),
        ((3, 4), (1, 2), 0),
        ((1, 1), (0, 0), 0),
    ],
)
def test_two_processes_use_the_newest_version_that_both_speak(
    mine: tuple[int, int], other: tuple[int, int], common: int
) -> None:
    assert VersionRange(*mine).common(VersionRange(*other)) == common


@pytest.mark.parametrize(
    ("other", "older"), [(VersionRange(1, 2), "the client"), (VersionRange(5, 6), "this proxy")]
)
def test_a_mismatch_names_the_side_to_upgrade(other: VersionRange, older: str) -> None:
    error = version_mismatch(
        "frame protocol", "this proxy", VersionRange(3, 4), "the client", other
    )
    assert error.reason == Reason.PROTOCOL_MISMATCH
    assert f"{older} is older; upgrade the package spark-queryable-state there" in str(error)
    assert f"speaks versions 3 to 4 of the frame protocol, the client speaks {other}" in str(error)


def test_the_present_versions_are_a_decision() -> None:
    """Raise one only if the other side must act differently; add a field otherwise."""
    assert VersionRange(1, 1) == FRAMES == INTERNAL


def test_every_way_to_ask_for_the_version_tells_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"queryable-state {__version__}\n"
    assert queryable_state.client.__version__ == __version__
    streaming = subprocess.run(
        [sys.executable, "-c", "from queryable_state.streaming import __version__ as v; print(v)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert streaming.stdout.strip() == __version__
