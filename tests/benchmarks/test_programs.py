"""The common arguments of the programs, and the program that runs all of them."""

from __future__ import annotations

import argparse
import subprocess
import sys

import pytest
from benchmarks.arguments import add_common_arguments, chosen


def test_chosen_names_are_in_the_order_of_the_known_names() -> None:
    assert chosen(argparse.ArgumentParser(), "c,a", ("a", "b", "c"), "part") == ["a", "c"]


def test_an_unknown_name_is_an_error_that_lists_the_known_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        chosen(argparse.ArgumentParser(), "a,x", ("a", "b"), "part")
    assert "unknown part: x; known are a, b" in capsys.readouterr().err


def test_a_program_without_rounds_takes_none() -> None:
    parser = argparse.ArgumentParser()
    add_common_arguments(parser, quick="a short run")
    assert vars(parser.parse_args(["--quick"])) == {"json": None, "quick": True}


def test_the_runner_refuses_an_unknown_program() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--quick", "nothing"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert "unknown program: nothing" in ended.stderr
