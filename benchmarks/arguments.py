"""The arguments all programs share, and the file their figures go to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.figures import write_json

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from benchmarks.machine import Machine, NoiseMeter


EXPERIMENTS = "-event_engine_client,-event_engine_listener"
"""`GRPC_EXPERIMENTS` that our clients are advised to set before gRPC is imported; the servers do
it themselves."""


def add_common_arguments(
    parser: argparse.ArgumentParser,
    *,
    quick: str,
    rounds: str | None = None,
    seconds: tuple[float, str] | None = None,
) -> None:
    """Adds `--json` and `--quick`; `--rounds` and `--seconds` where they are explained.

    `seconds` is the default with its explanation.
    """
    if rounds is not None:
        parser.add_argument("--rounds", type=int, default=3, help=rounds)
    if seconds is not None:
        parser.add_argument("--seconds", type=float, default=seconds[0], help=seconds[1])
    parser.add_argument("--json", type=Path, help="file for all figures")
    parser.add_argument("--quick", action="store_true", help=quick)


def chosen(
    parser: argparse.ArgumentParser, text: str, known: tuple[str, ...], what: str
) -> list[str]:
    """The comma-separated names in the order of `known`; ends the program at an unknown one."""
    names = set(text.split(","))
    if unknown := names - set(known):
        parser.error(f"no such {what}: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    return [name for name in known if name in names]


def write_run(
    options: argparse.Namespace,
    machine: Machine,
    meter: NoiseMeter,
    figures: Mapping[str, object],
) -> None:
    """Writes the figures with what they were taken on, where `--json` was given."""
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
