"""The process that reads new values as soon as they are readable.

`python -m benchmarks.latency.reader` prints one JSON line for each new value of a key:
the value, its batch, and the time of the answer in microseconds of the machine's clock. It ends
with its standard input. `Reader` starts it and collects the lines.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from queryable_state.client import Consistency, QueryableStateClient, UnknownKeyOrNamespaceError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

_POLL_S = 0.002
_WAIT_S = 120.0


@dataclass(frozen=True)
class Seen:
    """The first answer with a value."""

    batch: int
    seen_us: int


class Reader:
    """Starts the process and collects its lines until it is closed."""

    def __init__(
        self,
        proxy: str,
        job: str,
        name: str,
        key: str,
        consistencies: Sequence[str] = ("committed", "uncommitted"),
    ) -> None:
        self.seen: dict[str, dict[int, Seen]] = {each: {} for each in consistencies}
        """By consistency and value."""
        self._changed = threading.Condition()
        self._ended = False
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "benchmarks.latency.reader"),
                *(proxy, job, name, key, *consistencies),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._thread = threading.Thread(target=self._collect, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._thread.join()

    def wait_for(self, consistency: str, value: int) -> None:
        """Waits until a value at least as new was read."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._ended or max(self.seen[consistency], default=-1) >= value, _WAIT_S
            )
            if max(self.seen[consistency], default=-1) < value:
                why = "the reader has ended" if self._ended else f"none in {_WAIT_S:g} s"
                raise TimeoutError(f"no {consistency} answer with {value}: {why}")

    def _collect(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            with self._changed:
                seen = Seen(answer["batch"], answer["seen_us"])
                self.seen[answer["consistency"]].setdefault(answer["value"], seen)
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()


def send(consistency: str, value: int, version: int) -> None:
    """Prints one line."""
    seen_us = time.time_ns() // 1000
    line = {"consistency": consistency, "value": value, "batch": version, "seen_us": seen_us}
    print(json.dumps(line), flush=True)


async def read_committed(client: QueryableStateClient, job: str, name: str, key: str) -> None:
    """Sends each value, by a look-up that waits for the next batch."""
    batch = 0
    while True:
        state = await client.get_kv_state(
            job, name, key, consistency=Consistency.at_least(batch), timeout_s=600
        )
        send("committed", state.get(), state.info.version)
        batch = state.info.version + 1


async def read_uncommitted(client: QueryableStateClient, job: str, name: str, key: str) -> None:
    """Sends each value, by polling: there is no notification of a sealed batch."""
    newest = 0
    while True:
        try:
            state = await client.get_kv_state(job, name, key, consistency=Consistency.UNCOMMITTED)
        except UnknownKeyOrNamespaceError:
            continue
        if state.get() != newest:
            newest = state.get()
            send("uncommitted", newest, state.info.version)
        await asyncio.sleep(_POLL_S)


READS: Final = {"committed": read_committed, "uncommitted": read_uncommitted}


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("proxy", help="HOST:PORT")
    parser.add_argument("job")
    parser.add_argument("name")
    parser.add_argument("key")
    parser.add_argument("consistencies", nargs="+", choices=READS)
    options = parser.parse_args()
    host, port = options.proxy.rsplit(":", 1)
    async with QueryableStateClient(host, int(port)) as client:
        arguments = (client, options.job, options.name, options.key)
        tasks = [asyncio.create_task(READS[each](*arguments)) for each in options.consistencies]
        ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
        done, _ = await asyncio.wait([*tasks, ended], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        for task in done - {ended}:
            task.result()


if __name__ == "__main__":
    asyncio.run(main())
