"""The soak itself: everything at once, and look-ups at a share of the capacity beside it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from benchmarks.child_process import LineProcess
from benchmarks.closed_loop import closed_loop
from benchmarks.mixed.clients import OwnClient
from benchmarks.mixed.cpu_by_part import MARK
from benchmarks.mixed.history import Answers, History
from benchmarks.open_loop import open_loop
from benchmarks.soak.memory import Memory
from benchmarks.soak.on_lookers import OnLookers
from benchmarks.streaming.dataset import key_names

if TYPE_CHECKING:
    import argparse

    from benchmarks.mixed.job_process import JobProcess
    from benchmarks.open_loop import OpenLoopSample
    from benchmarks.soak.on_lookers import Seen
    from benchmarks.soak.secured import Caller
    from benchmarks.streaming.dataset import Dataset

_IN_FLIGHT = 64
_CAPACITY_S = 10.0
_SETTLE_S = 2.0
_SCAN_EVERY_S = 1.0
# One answer of so many is kept to be compared with the batches.
_CHECKED = 16
# An answer later than this is a failure.
_GIVE_UP_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Soaked:
    """The figures of one soak."""

    capacity: float
    """Look-ups a second with 64 in flight, beside everything else."""
    look_ups: OpenLoopSample
    connected: dict[str, Any]
    """Answers and errors of the many clients."""
    scans: int
    batches: int
    seen: Seen
    """What pages and watches got."""
    memory: Memory

    def problems(self) -> list[str]:
        """Everything that must not be; empty: the soak has passed."""
        late = [] if self.look_ups.kept_up else [f"LATE: a look-up waited for {_GIVE_UP_S:g} s"]
        failed = [*self.connected["errors"], *self.seen.errors[:20]]
        idle = [
            f"FAILED: {name} got nothing"
            for name, number in vars(self.seen).items()
            if not number and name != "errors"
        ]
        return [*late, *(f"FAILED: {each}" for each in failed), *idle, *self.memory.grown()]

    def to_json(self) -> dict[str, object]:
        """All figures."""
        return {
            "capacity": self.capacity,
            "look_ups": vars(self.look_ups),
            "connected": self.connected,
            "scans": self.scans,
            "batches": self.batches,
            "seen": vars(self.seen),
            "rss": [{"at_s": at, **rss} for at, rss in self.memory.samples],
            "problems": self.problems(),
        }


@dataclass
class Checked:
    """Answers of look-ups and of scans, for the comparison with the batches."""

    client: OwnClient
    numbers: dict[str, int]
    answers: Answers = field(default_factory=Answers)
    scanned: list[Answers] = field(default_factory=list)
    seen: int = 0

    def is_right(self, number: int, answer: object) -> bool:
        """Whether a key has sums; keeps some of them."""
        sums = self.client.sums(answer)  # type: ignore[arg-type]
        if sums is None:
            return False
        self.seen += 1
        if self.seen % _CHECKED == 0:
            self.answers.keep(number, *sums)
        return True

    async def scan(self) -> None:
        """Scans all keys again and again until it is cancelled; raises for a scan with a gap."""
        while True:
            found = Answers()
            scan = self.client.scan()
            async for key, state in scan:
                sums = self.client.sums(state)
                assert sums is not None
                found.keep(self.numbers[key], *sums)
            if not scan.complete or len(found.numbers) != len(self.numbers):
                raise RuntimeError(f"a scan found {len(found.numbers)} of {len(self.numbers)} keys")
            self.scanned.append(found)
            await asyncio.sleep(_SCAN_EVERY_S)


async def soak(
    job: JobProcess,
    where: dict[str, Any],
    dataset: Dataset,
    caller: Caller,
    options: argparse.Namespace,
) -> Soaked:
    """Runs it; raises if an answer or a scan is wrong."""
    keys = key_names(dataset.keys)
    people = OnLookers(where["address"], where.pop("web"), where["job_id"], keys, caller)
    history, memory = History.of(dataset), Memory(os.environ[MARK])
    client = OwnClient(keys, **where, tls=caller.tls, token=caller.token)
    checked = Checked(client, {key: number for number, key in enumerate(keys)})
    order = history.order()
    await asyncio.to_thread(job.wait_warm)
    async with client:
        with LineProcess("the clients", _clients(where, dataset, caller, options)) as clients:
            await asyncio.to_thread(clients.command, "open")
            async with people.looking(), _running(checked.scan()) as scans:
                at_full = await closed_loop(
                    client.get,
                    checked.is_right,
                    order,
                    in_flight=_IN_FLIGHT,
                    warm_up_s=_SETTLE_S,
                    seconds=_CAPACITY_S,
                )
                async with _running(memory.watch()):
                    loop = await open_loop(
                        client.get,
                        checked.is_right,
                        order,
                        rate=at_full.per_second * options.share,
                        warm_up_s=_SETTLE_S,
                        seconds=options.seconds,
                        give_up_s=_GIVE_UP_S,
                    )
                if scans.done():
                    await scans
            connected = await asyncio.to_thread(clients.command, "finish")
        ended = await asyncio.to_thread(job.finish)
        _check(history, checked, ended["supplied"])
        history.check_end(await client.get_all(), ended["supplied"])
    return Soaked(
        capacity=at_full.per_second,
        look_ups=loop,
        connected=connected,
        scans=len(checked.scanned),
        batches=ended["supplied"],
        seen=people.seen,
        memory=memory,
    )


def _check(history: History, checked: Checked, supplied: int) -> None:
    history.batches_of(checked.answers, supplied)
    for scanned in checked.scanned:
        batches = history.batches_of(scanned, supplied)
        if batches.min() != batches.max():
            raise RuntimeError(
                f"a scan has keys after {batches.min()} and after {batches.max()} batches"
            )


def _clients(
    where: dict[str, Any], dataset: Dataset, caller: Caller, options: argparse.Namespace
) -> list[str]:
    places = (where["address"], where["job_id"], options.connections, dataset.keys)
    return [
        *(sys.executable, "-m", "benchmarks.soak.connections"),
        *(str(each) for each in (*places, caller.ca, caller.token)),
    ]


@contextlib.asynccontextmanager
async def _running(work: Any) -> Any:
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])
