"""Arguments that all programs share, and their JSON file of figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.figures import write_json

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from benchmarks.machine import Machine, NoiseMeter


EXPERIMENTS = "-event_engine_client,-event_engine_listener"
"""The value of `GRPC_EXPERIMENTS` recommended to clients, set before gRPC is imported; the servers
set it themselves."""


def add_common_arguments(
    parser: argparse.ArgumentParser,
    *,
    quick: str,
    rounds: str | None = None,
    seconds: tuple[float, str] | None = None,
) -> None:
    """Adds `--json` and `--quick`, and `--rounds` and `--seconds` if their help is given.

    `seconds` is the default and the help.
    """
    if rounds is not None:
        parser.add_argument("--rounds", type=int, default=3, help=rounds)
    if seconds is not None:
        parser.add_argument("--seconds", type=float, default=seconds[0], help=seconds[1])
    parser.add_argument("--json", type=Path, help="JSON file to write all figures to")
    parser.add_argument("--quick", action="store_true", help=quick)


def chosen(
    parser: argparse.ArgumentParser, text: str, known: tuple[str, ...], noun: str
) -> list[str]:
    """The comma-separated names of `text` in the order of `known`; an unknown name is an error."""
    names = set(text.split(","))
    if unknown := names - set(known):
        parser.error(f"unknown {noun}: {', '.join(sorted(unknown))}; known are {', '.join(known)}")
    return [name for name in known if name in names]


def write_run(
    options: argparse.Namespace,
    machine: Machine,
    meter: NoiseMeter,
    figures: Mapping[str, object],
) -> None:
    """Writes the figures with machine, load and options, if `--json` was given."""
    if options.json:
        write_json(
            options.json,
            {
                "machine": machine.to_json(),
                "noise": meter.note(),
                "options": {name: str(value) for name, value in vars(options).items()},
                **figures,
            },
        )
