"""Faults of a real job that somebody can begin and end."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pyspark import cloudpickle

from benchmarks.findings.feed import KEYS, Feed, rows
from queryable_state.client.blocking import QueryableStateClient
from queryable_state.streaming import (
    KeyedProcessFunction,
    RestartStrategies,
    Types,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from queryable_state.streaming import JobClient, RuntimeContext, StreamExecutionEnvironment
    from queryable_state.streaming.functions import Context

POISON = -273.5
_EVERY_S = 2.0
_SCHEMA = "sensor string, temperature double"
_COUNTS = Types.ROW_NAMED(["sensor", "count"], [Types.STRING(), Types.LONG()])


class Counting(KeyedProcessFunction):
    """Counts the readings of a sensor; fails at one temperature, or while a file exists."""

    def __init__(self, failing_while: str) -> None:
        self._failing_while = failing_while

    def open(self, runtime_context: RuntimeContext) -> None:
        if Path(self._failing_while).exists():
            raise ConnectionError("the service of prices does not answer")
        descriptor = ValueStateDescriptor("count", Types.LONG())
        descriptor.set_queryable("count")
        self._count = runtime_context.get_state(descriptor)

    def process_element(self, value: Any, ctx: Context) -> Iterator[tuple[str, int]]:
        if value.temperature == POISON:
            raise ValueError("no such temperature")
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        yield value.sensor, count


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


class Place:
    """An application, its folders, and a job whose source gets rows."""

    def __init__(
        self, spark: SparkSession, env: StreamExecutionEnvironment, name: str, folder: Path
    ) -> None:
        """`folder` has the application's `state` and `servers`; the rest is the job's own."""
        self._spark = spark
        self._env = env
        self.name = name
        self.state = folder / "state"
        self.servers = folder / "servers"
        folder /= name.replace(" ", "_")
        self.flag = folder / "fails"
        self.feed = Feed(folder / "input")
        self.job: JobClient | None = None

    def start(self, *, restart_ms: int = 1_000, files_a_batch: int = 1_000) -> None:
        """Starts the job, also again."""
        self._env.set_restart_strategy(RestartStrategies.fixed_delay_restart(1_000, restart_ms))
        readings = self.feed.dataframe(self._spark, _SCHEMA, files_a_batch)
        stream = self._env.from_dataframe(readings).key_by("sensor")
        stream.process(Counting(str(self.flag)), _COUNTS).uid("counts")
        self.job = self._env.execute_async(self.name)

    def client(self) -> QueryableStateClient:
        """A client of the application's proxy."""
        host, _, port = self._env.proxy_address().rpartition(":")
        return QueryableStateClient(host, int(port))

    def close(self) -> None:
        """Ends the rows and the job."""
        self.feed.close()
        if self.job is not None:
            self.job.cancel()


class Situation(Protocol):
    """One fault. `begin` and `end` return at once; rows go on, unless they are the fault."""

    name: str
    code: str
    is_quick: bool

    def prepare(self, place: Place) -> None:
        """Sets the pace of rows, and the restarts."""

    def begin(self, place: Place) -> None:
        """Makes the fault."""

    def end(self, place: Place) -> None:
        """Removes its cause."""


class _Steady:
    restart_ms = 1_000
    files_a_batch = 1_000
    is_quick = True

    def prepare(self, place: Place) -> None:
        place.start(restart_ms=self.restart_ms, files_a_batch=self.files_a_batch)
        place.feed.add(rows(KEYS))
        assert place.job is not None
        place.job.process_all_available()
        place.feed.every(_EVERY_S, rows(KEYS))


class FullRoot(_Steady):
    """The disk of the state root gets full."""

    name, code = "full state root", "STORAGE_NOT_WRITABLE"

    def begin(self, place: Place) -> None:
        self._filler = place.state / "filler"
        with self._filler.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1 << 16))
            except OSError as full:
                if full.errno != errno.ENOSPC:
                    raise

    def end(self, place: Place) -> None:
        self._filler.unlink()


class PoisonRow(_Steady):
    """A record on which the function raises; it is corrected in its file."""

    name, code = "poison row", "POISON_RECORD"

    def begin(self, place: Place) -> None:
        self._file = place.feed.add(rows(["sensor-7"], POISON))

    def end(self, place: Place) -> None:
        place.feed.rewrite(self._file, rows(["sensor-7"], 20.0))


class Damage(_Steady):
    """Files of the checkpoints are damaged when a job starts; then they are put back."""

    name, code = "damaged checkpoint", "CHECKPOINT_DAMAGED"

    def begin(self, place: Place) -> None:
        assert place.job is not None
        place.job.cancel()
        with place.client() as client:
            held = [each.pid for each in client.list_servers() if each.lease == "HELD"]
        for pid in held:
            os.kill(pid, signal.SIGKILL)
        root = next(place.state.glob(f"{place.name.replace(' ', '%20')}*"))
        self._saved = root.with_name("saved")
        shutil.copytree(root, self._saved)
        self._root = root
        for path in root.rglob("shared/*"):
            content = bytearray(path.read_bytes())
            middle = len(content) // 2
            content[middle : middle + 4] = bytes(255 - each for each in content[middle:][:4])
            path.write_bytes(content)
        shutil.rmtree(place.servers, ignore_errors=True)
        place.start()

    def end(self, place: Place) -> None:
        for path in self._saved.rglob("shared/*"):
            shutil.copy2(path, self._root / path.relative_to(self._saved))


class SilentSource(_Steady):
    """The only source has no rows any more."""

    name, code = "silent source", "SOURCE_SILENT"
    is_quick = False

    def begin(self, place: Place) -> None:
        place.feed.every(None, [])

    def end(self, place: Place) -> None:
        place.feed.every(_EVERY_S, rows(KEYS))


class Behind(_Steady):
    """More files arrive than batches of one file are made."""

    name, code = "job behind", "JOB_BEHIND"
    files_a_batch = 1
    is_quick = False

    def begin(self, place: Place) -> None:
        place.feed.every(0.2, rows(KEYS))

    def end(self, place: Place) -> None:
        place.feed.every(None, [])


class HotKey(_Steady):
    """92 % of the rows have one key."""

    name, code = "hot key", "HOT_KEY"
    is_quick = False

    def begin(self, place: Place) -> None:
        place.feed.every(_EVERY_S, rows(KEYS * 2 + [KEYS[3]] * 920))

    def end(self, place: Place) -> None:
        place.feed.every(_EVERY_S, rows(KEYS))


class Restarting(_Steady):
    """A function cannot reach a service, and its job is started again each ten seconds."""

    name, code = "failing and restarting", "JOB_RESTARTING"
    restart_ms = 10_000

    def begin(self, place: Place) -> None:
        place.flag.touch()

    def end(self, place: Place) -> None:
        place.flag.unlink()


SITUATIONS: tuple[type[Situation], ...] = (
    FullRoot,
    PoisonRow,
    Damage,
    Restarting,
    Behind,
    HotKey,
    SilentSource,
)
