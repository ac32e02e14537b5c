"""A program that uses clients of every kind, forks, and reports what its children and it saw.

    python forking_program.py HOST:PORT use-first|fork-first

Its children ask in a loop while it asks itself, each key with its own value.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from queryable_state.client import QueryableStateClient
from queryable_state.client.blocking import QueryableStateClient as BlockingClient

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

HOST, PORT = sys.argv[1].split(":")
ROUNDS = 10
KEYS = [f"sensor_{number}" for number in range(100)]


def new_client() -> QueryableStateClient:
    return QueryableStateClient(HOST, int(PORT), timeout_s=20)


def in_child(work: Callable[[], dict[str, str]]) -> Callable[[], dict[str, str]]:
    """Forks a process for the work; returns a function that waits for its report."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(30)
        report = {"raised": "nothing"}
        try:
            report = work()
        except BaseException as error:  # noqa: BLE001 - it is reported
            report = {"raised": repr(error)}
        finally:
            os.write(write, json.dumps(report).encode())
            os._exit(0)
    os.close(write)

    def wait() -> dict[str, str]:
        with os.fdopen(read, "rb") as pipe:
            reported: dict[str, str] = json.loads(pipe.read() or '{"reported": "nothing"}')
        os.waitpid(pid, 0)
        return reported

    return wait


async def outcome(call: Callable[[], Awaitable[Any]]) -> str:
    try:
        return repr(await call())
    except Exception as error:  # noqa: BLE001 - it is reported
        return f"{type(error).__name__}: {error}"


def blocking_outcome(call: Callable[[], Any]) -> str:
    try:
        return repr(call())
    except Exception as error:  # noqa: BLE001 - it is reported
        return f"{type(error).__name__}: {error}"


class Inherited:
    """The parent's clients, with a scan and a watch under way."""

    def __init__(self) -> None:
        self.client = new_client()
        self.blocking = BlockingClient(HOST, int(PORT), timeout_s=20)

    async def use(self) -> None:
        client = self.client
        await client.get_kv_states("sensors", "last", KEYS)
        while sum(each.transport == "frames" for each in client.connections()) < 2:
            await asyncio.sleep(0.01)
            await client.get_kv_states("sensors", "last", KEYS)
        self.scan = client.scan("sensors", "last")
        self.page = await self.scan.next_page() or []
        self.watch = client.watch("sensors", "last")
        await self.watch.open()

    async def all_outcomes(self) -> dict[str, str]:
        client = self.client
        calls: dict[str, Callable[[], Awaitable[Any]]] = {
            "get": lambda: client.get_kv_state("sensors", "last", "sensor_1"),
            "get with options": lambda: client.get_kv_state(
                "sensors", "last", "sensor_1", timeout_s=9
            ),
            "many": lambda: client.get_kv_states("sensors", "last", KEYS),
            "multi_get": lambda: client.multi_get("sensors", "last", KEYS),
            "list_jobs": client.list_jobs,
            "scan": self.scan.next_page,
            "watch": lambda: anext(self.watch),
            "watch again": lambda: anext(self.watch),
        }
        outcomes = {name: await outcome(call) for name, call in calls.items()}
        await self.scan.aclose()
        await self.watch.aclose()
        await client.aclose()
        return outcomes

    def blocking_outcomes(self) -> dict[str, str]:
        client = self.blocking
        return {
            "get": blocking_outcome(lambda: client.get_kv_state("sensors", "last", "sensor_1")),
            "list_jobs": blocking_outcome(client.list_jobs),
        }

    async def wrong_answers(self) -> int:
        """Number of wrong values of 100 keys, in single look-ups."""
        states = await asyncio.gather(
            *(self.client.get_kv_state("sensors", "last", key) for key in KEYS)
        )
        return sum(state.value() != float(number) for number, state in enumerate(states))


def write_report(report: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(report))


def main() -> None:
    loop = asyncio.new_event_loop()
    inherited = Inherited()
    loop.run_until_complete(inherited.use())
    inherited.blocking.get_kv_state("sensors", "last", "sensor_1")
    pending: asyncio.Future[Any]

    async def ask_later() -> None:
        nonlocal pending
        pending = inherited.client.get_kv_state("sensors", "last", "sensor_1")

    async def fork_inside() -> tuple[Callable[[], dict[str, str]], Any]:
        """Forks in a coroutine, with a look-up pending, and uses the same loop in the child."""
        own = inherited.client.get_kv_state("sensors", "last", "sensor_2")
        await asyncio.sleep(0)

        def ask() -> dict[str, str]:
            def run(work: Any) -> Any:
                try:
                    while True:
                        work.send(None)
                except StopIteration as end:
                    return end.value

            failed = own.exception() if own.done() else None
            return {"pending": type(failed).__name__, **run(inherited.all_outcomes())}

        return in_child(ask), await own

    inside, own = loop.run_until_complete(fork_inside())
    loop.run_until_complete(ask_later())
    while pending.done():
        # The answer came as the loop ended.
        loop.run_until_complete(ask_later())

    def on_the_same_loop() -> dict[str, str]:
        waiting = loop.run_until_complete(outcome(lambda: pending))
        return {"pending": waiting, **loop.run_until_complete(inherited.all_outcomes())}

    children = {
        "inside": inside,
        "same loop": in_child(on_the_same_loop),
        "new loop": in_child(lambda: asyncio.run(inherited.all_outcomes())),
        "blocking": in_child(inherited.blocking_outcomes),
    }
    wrong = sum(loop.run_until_complete(inherited.wrong_answers()) for _ in range(ROUNDS))
    reports = {name: report() for name, report in children.items()}
    after: list[str] = []

    async def finish() -> None:
        after.append(str((await pending).value()))
        rest = [key async for key, _ in inherited.scan]
        after.append(str(len(inherited.page) + len(rest)))
        after.append(str(len(await inherited.client.list_jobs())))
        await inherited.watch.aclose()
        await inherited.client.aclose()

    loop.run_until_complete(finish())
    after.append(str(inherited.blocking.get_kv_state("sensors", "last", "sensor_1").value()))
    inherited.blocking.close()
    loop.close()
    write_report({"wrong": wrong, "own": own.value(), "after": after, "children": reports})


def fork_first() -> None:
    """A process without an open client forks, and each of the two opens its own."""

    async def ask() -> dict[str, str]:
        async with new_client() as client:
            state = await client.get_kv_state("sensors", "last", "sensor_7")
            return {"value": str(state.value())}

    unused = new_client()
    child = in_child(lambda: asyncio.run(ask()))
    write_report({"parent": asyncio.run(ask()), "child": child(), "unused": repr(unused)})


if __name__ == "__main__":
    if sys.argv[2] == "fork-first":
        fork_first()
    else:
        main()
