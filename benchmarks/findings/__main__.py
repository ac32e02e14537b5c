"""`python -m benchmarks.findings [SITUATION ...]`: faults of a real job, and what its status says.

Makes each fault of `situations.py`, waits for the right finding as a person would look for it, in
`describe_job`, removes the cause, and waits until the finding is over. Prints the seconds of both,
the first words, and what else was found meanwhile. A full disk needs a file system of its own: as
root the state is on a small tmpfs, else that situation is left out.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from benchmarks.arguments import add_common_arguments
from benchmarks.figures import write_json
from benchmarks.findings.situations import SITUATIONS, FullRoot, Place, Situation
from benchmarks.signals import exit_on_signal
from queryable_state.streaming import StreamExecutionEnvironment
from queryable_state.streaming.spark.application import SparkApplication
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from queryable_state.client import JobDescription
    from queryable_state.client.blocking import QueryableStateClient

_POLL_S = 0.2
_START_S = 120.0
_DEADLINE_S = 300.0
_BATCHES = 12
"""So many batches make the past that a job is compared with."""
_STATE_BYTES = 48 << 20


@dataclass(kw_only=True)
class Timed:
    """What was seen of one situation; seconds are -1 if it was not seen within five minutes."""

    name: str
    code: str
    found_s: float = -1.0
    words: str = ""
    next_step: str = ""
    over_s: float = -1.0
    in_history: bool = False
    others: list[str] = field(default_factory=list)
    """Codes of other findings, with the seconds after the fault at which each was first seen."""


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """Mounts a tmpfs on a folder; False: this user may not."""
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_STATE_BYTES}", "tmpfs", str(folder)]
    is_mounted = os.geteuid() == 0 and not subprocess.run(mount, check=False).returncode
    try:
        yield is_mounted
    finally:
        if is_mounted:
            subprocess.run(["umount", "-l", str(folder)], check=False)


def timed(situation: Situation, place: Place) -> Timed:
    """Makes a fault, waits for its finding, removes its cause, and waits for the end."""
    result = Timed(name=situation.name, code=situation.code)
    situation.prepare(place)
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(place.client())
        look = _looks(client, place.name)
        _until(look, lambda job: job.last_batch.batch_id >= _BATCHES, _START_S)
        begun_s = time.monotonic()
        situation.begin(place)

        def is_found(job: JobDescription) -> bool:
            after_s = time.monotonic() - begun_s
            for each in job.findings:
                if each.code == situation.code:
                    result.words, result.next_step = each.message, each.next_step
                elif not any(other.startswith(each.code) for other in result.others):
                    result.others.append(f"{each.code} {after_s:.1f} s: {each.message}")
            return bool(result.words)

        if _until(look, is_found, _DEADLINE_S):
            result.found_s = round(time.monotonic() - begun_s, 1)
            print(f"\n{result.name}: {result.code} after {result.found_s:.1f} s", flush=True)
        ended_s = time.monotonic()
        situation.end(place)
        if _until(look, lambda job: not _has(job, situation.code), _DEADLINE_S):
            result.over_s = round(time.monotonic() - ended_s, 1)
        result.in_history = bool(
            _until(look, lambda job: situation.code in _codes_over(job), _POLL_S)
        )
    return result


def _has(job: JobDescription, code: str) -> bool:
    return any(each.code == code for each in job.findings)


def _codes_over(job: JobDescription) -> set[str]:
    return {each.code for each in job.ended_findings}


def _looks(client: QueryableStateClient, name: str) -> Callable[[], JobDescription | None]:
    def look() -> JobDescription | None:
        with contextlib.suppress(QueryableStateError):
            return client.describe_job(name)
        return None

    return look


def _until(
    look: Callable[[], JobDescription | None],
    is_so: Callable[[JobDescription], bool],
    deadline_s: float,
) -> bool:
    ends_s = time.monotonic() + deadline_s
    while True:
        job = look()
        if job is not None and is_so(job):
            return True
        if time.monotonic() > ends_s:
            return False
        time.sleep(_POLL_S)


def printed(result: Timed) -> None:
    """Prints one result."""
    history = "in the history" if result.in_history else "not in the history"
    print(f"{result.name}: {result.code} after {result.found_s:.1f} s", end=", ")
    print(f"over {result.over_s:.1f} s after its cause was removed, {history}")
    print(f"  says: {result.words}")
    print(f"  next: {result.next_step}")
    for other in result.others:
        print(f"  also: {other}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.findings", description=__doc__)
    names = [each.name for each in SITUATIONS]
    parser.add_argument("situations", nargs="*", metavar="SITUATION", help=f"of {', '.join(names)}")
    add_common_arguments(parser, quick="only those that take less than a minute")
    options = parser.parse_args()
    if unknown := set(options.situations) - set(names):
        parser.error(f"unknown situation: {', '.join(sorted(unknown))}")
    exit_on_signal()
    wanted = options.situations or names
    chosen = [each for each in SITUATIONS if each.name in wanted]
    if options.quick:
        chosen = [each for each in chosen if each.is_quick]
    results = []
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        is_small = stack.enter_context(small_disk(folder / "state"))
        spark = (
            SparkSession.builder.master("local[2,4]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("execution.checkpointing.interval", "1 s")
            # Small files, too, are files that can be damaged.
            .config("state.backend.fs.memory-threshold", "0")
            .config("state.backend", "rocksdb")
            .config("state.checkpoints.dir", str(folder / "state"))
            .config("spark.queryable_state.directory", str(folder / "servers"))
            .getOrCreate()
        )
        stack.callback(spark.stop)
        spark.sparkContext.setLogLevel("OFF")
        env = StreamExecutionEnvironment.get_execution_environment(spark)
        stack.callback(SparkApplication.close_all)
        for kind in chosen:
            if kind is FullRoot and not is_small:
                print("full state root: left out, it needs root to mount a tmpfs")
                continue
            place = Place(spark, env, kind.name, folder)
            try:
                result = timed(kind(), place)
            finally:
                place.close()
            printed(result)
            results.append(asdict(result))
    if options.json:
        write_json(options.json, {"findings": results})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
