"""`python -m benchmarks [PROGRAM ...]`: runs the programs one after the other, by default all.

Each program runs in a process of its own and prints its tables; the figures of all go into one
file. Unknown options are passed on to the programs: name one program with them.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from benchmarks.arguments import add_common_arguments
from benchmarks.child_process import run_child
from benchmarks.figures import write_json
from benchmarks.signals import exit_on_signal

PROGRAMS = (
    "query",
    "streaming",
    "streaming.operators",
    "latency.freshness",
    "latency.timers",
    "latency.kafka",
    "watch",
    "native",
    "mixed",
    "rest",
    "page",
    "metrics",
    "soak",
    "recovery",
    "capacity",
)
LONG_PROGRAMS = ("capacity.simulation", "findings")
"""Run with `--long` only, or by name."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    known = PROGRAMS + LONG_PROGRAMS
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=f"of {', '.join(known)}")
    add_common_arguments(parser, quick="a short run of each, some minutes in all")
    parser.add_argument(
        "--long",
        action="store_true",
        help="capacity up to 10,000,000 keys and timers, and "
        f"{', '.join(LONG_PROGRAMS)}; half an hour more",
    )
    options, passed_on = parser.parse_known_args()
    if unknown := set(options.programs) - set(known):
        parser.error(f"unknown program: {', '.join(sorted(unknown))}; known are {', '.join(known)}")
    if options.quick:
        passed_on.append("--quick")
    exit_on_signal()
    figures: dict[str, object] = {}
    failed: list[str] = []
    for program in options.programs or (known if options.long else PROGRAMS):
        print(f"== {program}", flush=True)
        long = ["--long"] if options.long and program == "capacity" else []
        found = run(program, [*passed_on, *long])
        if found is None:
            failed.append(program)
        else:
            figures[program] = found
    if options.json:
        write_json(options.json, figures)
    if failed:
        print(f"failed: {', '.join(failed)}; see the output above", file=sys.stderr)
    return 1 if failed else 0


def run(program: str, arguments: list[str]) -> object:
    """Runs a program; returns its figures, or None if it failed."""
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as folder:
        file = Path(folder) / "figures.json"
        command = [sys.executable, "-m", f"benchmarks.{program}", "--json", str(file), *arguments]
        if run_child(command, captures=False)[0]:
            return None
        return json.loads(file.read_text())


if __name__ == "__main__":
    sys.exit(main())
