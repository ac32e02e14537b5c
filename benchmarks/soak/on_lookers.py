"""People who look at the job during a soak: pages in the browser, and watches of keys.

A page asks the REST paths that the page in the browser asks, as often as it does, and follows a key
by server-sent events. A watch follows a key by our client.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import aiohttp

from benchmarks.streaming.own_variants import QUERYABLE_NAME
from queryable_state.client import QueryableStateClient, QueryableStateError
from queryable_state.wire.addresses import host_and_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from benchmarks.soak.secured import Caller

PAGES = 4
WATCHES = 50
# As the page in the browser does.
_OFTEN_S, _SELDOM_S = 2.0, 10.0
_WATCH_AGAIN_S = 30.0


@dataclass
class Seen:
    """What all of them got."""

    answers: int = 0
    events: int = 0
    """Server-sent events."""
    changes: int = 0
    """Changes of watches."""
    errors: list[str] = field(default_factory=list)


class OnLookers:
    """Pages and watches of one job, while `looking` lasts."""

    def __init__(
        self, address: str, web: str, job_id: str, keys: Sequence[str], caller: Caller
    ) -> None:
        self.seen = Seen()
        self._address = address
        self._web = web
        self._job = f"{web}/api/v1/jobs/{job_id}"
        self._job_id = job_id
        self._keys = keys
        self._caller = caller

    @contextlib.asynccontextmanager
    async def looking(self) -> AsyncIterator[None]:
        """Opens the pages and the watches; closes them at the end."""
        connector = aiohttp.TCPConnector(
            ssl=ssl.create_default_context(cafile=self._caller.ca), limit=0
        )
        async with (
            aiohttp.ClientSession(
                connector=connector, headers={"Authorization": f"Bearer {self._caller.token}"}
            ) as http,
            QueryableStateClient(
                *host_and_port(self._address),
                timeout_s=30.0,
                tls=self._caller.tls,
                token=self._caller.token,
            ) as client,
        ):
            work = [
                *(self._watch(client, key) for key in self._keys[:WATCHES]),
                *(self._follow(http, key) for key in self._keys[:PAGES]),
            ]
            for _ in range(PAGES):
                work += [
                    self._poll(http, [f"{self._web}/api/v1/servers", self._job], _OFTEN_S),
                    self._poll(http, [f"{self._web}/api/v1/jobs"], _OFTEN_S),
                    self._poll(
                        http,
                        [f"{self._job}?history=1", f"{self._job}/states", f"{self._job}/hot-keys"],
                        _SELDOM_S,
                    ),
                ]
            tasks = [asyncio.create_task(each) for each in work]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                ended = await asyncio.gather(*tasks, return_exceptions=True)
                failed = [each for each in ended if isinstance(each, Exception)]
                self.seen.errors += [f"{type(each).__name__}: {each}" for each in failed]

    async def _poll(
        self, http: aiohttp.ClientSession, urls: Sequence[str], period_s: float
    ) -> None:
        while True:
            for url in urls:
                async with http.get(url) as answer:
                    body = await answer.read()
                    if answer.status != 200:
                        self.seen.errors.append(f"{url}: {answer.status} {body[:200]!r}")
                    self.seen.answers += 1
            await asyncio.sleep(period_s)

    async def _follow(self, http: aiohttp.ClientSession, key: str) -> None:
        """Follows a key; begins anew now and then, as a person who comes and goes."""
        url = f"{self._job}/states/{QUERYABLE_NAME}/watch"
        while True:
            with contextlib.suppress(TimeoutError):
                async with (
                    asyncio.timeout(_WATCH_AGAIN_S),
                    http.get(url, params={"key": key}, timeout=aiohttp.ClientTimeout()) as answer,
                ):
                    if answer.status != 200:
                        raise RuntimeError(f"{url}: {answer.status} {await answer.text()}")
                    async for line in answer.content:
                        self.seen.events += line.startswith(b"data:")

    async def _watch(self, client: QueryableStateClient, key: str) -> None:
        last = -1
        while True:
            try:
                async with (
                    asyncio.timeout(_WATCH_AGAIN_S),
                    client.watch(self._job_id, QUERYABLE_NAME, keys=[key]) as watch,
                ):
                    async for change in watch:
                        if change.batch <= last:
                            self.seen.errors.append(f"{key}: batch {change.batch} after {last}")
                        last = change.batch
                        self.seen.changes += 1
            except TimeoutError:
                continue
            except QueryableStateError as error:
                self.seen.errors.append(f"watch of {key}: {error}")
                return
