"""What all programs take as arguments, and the program that runs them all."""

from __future__ import annotations

import argparse
import subprocess
import sys

import pytest
from benchmarks.arguments import add_common_arguments, chosen


def test_names_come_in_the_order_of_the_known() -> None:
    assert chosen(argparse.ArgumentParser(), "c,a", ("a", "b", "c"), "part") == ["a", "c"]


def test_an_unknown_name_ends_the_program_and_tells_the_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        chosen(argparse.ArgumentParser(), "a,x", ("a", "b"), "part")
    assert "no such part: x; there are a, b" in capsys.readouterr().err


def test_a_program_without_rounds_takes_none() -> None:
    parser = argparse.ArgumentParser()
    add_common_arguments(parser, quick="less of all")
    assert vars(parser.parse_args(["--quick"])) == {"json": None, "quick": True}


def test_the_runner_refuses_a_program_there_is_none_of() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--quick", "nothing"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert "no such program: nothing" in ended.stderr
