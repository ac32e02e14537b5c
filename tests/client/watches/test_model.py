"""Watches against a model: every committed change exactly once, whatever is lost in between."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.client.watches.test_failovers import KEYS, durable
from tests.client.watches.test_watches import next_changes
from tests.waiting import DEADLINE_S

from queryable_state.client import ChangeKind, QueryableStateClient
from queryable_state.server.testing.cluster import InProcessCluster

if TYPE_CHECKING:
    from queryable_state.client import Change, Watch
    from queryable_state.server.query.proxy.proxy_server import ProxyServer
    from queryable_state.server.testing.cluster import InProcessJob

STEPS = ("batch", "batch", "batch", "empty", "kill", "proxy", "reopen", "read")

Written = tuple[int | None, int | None]


@dataclass
class Model:
    """What the job has committed: old and new value of each change, in the order of batches."""

    chance: random.Random
    batch: int = 0
    values: dict[str, int] = field(default_factory=dict)
    changes: dict[tuple[int, str], Written] = field(default_factory=dict)

    def next_batch(self, *, is_empty: bool) -> dict[str, int | None]:
        """Some keys with new values, or None to delete them."""
        self.batch += 1
        written: dict[str, int | None] = {}
        for key in self.chance.sample(KEYS, 0 if is_empty else self.chance.randint(1, len(KEYS))):
            written[key] = None if self.chance.random() < 0.2 else self.chance.randint(0, 3)
        for key, value in written.items():
            before = self.values.pop(key, None)
            if value is not None:
                self.values[key] = value
            # Removing what is not there changes nothing.
            if value is not None or before is not None:
                self.changes[self.batch, key] = before, value
        return written


class Watched:
    """A watch of some keys or of the whole state, and the changes that it has returned."""

    def __init__(self, client: QueryableStateClient, keys: list[str] | None) -> None:
        self._client = client
        self._keys = keys
        self._watch: Watch = client.watch("kept", "values", keys=keys, after_batch=0)
        self.seen: list[Change] = []

    async def read(self, count: int) -> None:
        """Reads until this many changes are seen."""
        self.seen += await next_changes(self._watch, count - len(self.seen))

    async def reopen(self) -> None:
        """Goes on in another watch, which repeats the batch that was handled in part."""
        position = self._watch.batch
        assert position is not None
        await self._watch.aclose()
        self.seen = [each for each in self.seen if each.batch <= position]
        self._watch = self._client.watch("kept", "values", keys=self._keys, after_batch=position)

    async def aclose(self) -> None:
        """Ends the watch."""
        await self._watch.aclose()


class WatchedByKey:
    """A watch of each key."""

    def __init__(self, client: QueryableStateClient, model: Model) -> None:
        self._model = model
        self._by_key = {key: Watched(client, [key]) for key in KEYS}

    @property
    def seen(self) -> list[Change]:
        """The changes that all have returned."""
        found = [change for each in self._by_key.values() for change in each.seen]
        return sorted(found, key=lambda change: change.batch)

    async def read(self, count: int) -> None:
        """Reads until each watch has seen its part of the first changes of the job."""
        wanted = Counter(key for _, key in sorted(self._model.changes)[:count])
        async with asyncio.TaskGroup() as reads:
            for key, watched in self._by_key.items():
                reads.create_task(watched.read(wanted[key]))

    async def reopen(self) -> None:
        """Goes on in another watch of one key."""
        await self._by_key[self._model.chance.choice(KEYS)].reopen()

    async def aclose(self) -> None:
        """Ends the watches."""
        for each in self._by_key.values():
            await each.aclose()


async def follow(
    steps: list[str],
    model: Model,
    cluster: InProcessCluster,
    job: InProcessJob,
    proxies: list[ProxyServer],
    watched: Watched | WatchedByKey,
) -> None:
    """Runs the steps, and reads the watch to its end."""
    for step in [*steps, "batch"]:
        if step in ("batch", "empty"):
            await job.run(model.batch + 1, {"values": model.next_batch(is_empty=step == "empty")})
        elif step == "kill":
            await cluster.kill_server(model.chance.choice(cluster.servers))
            await cluster.add_server()
            # Without a batch nobody opens what the server had.
            await job.run(model.batch + 1, {"values": model.next_batch(is_empty=True)})
        elif step == "proxy" and len(proxies) > 1:
            await proxies.pop(model.chance.randrange(2)).aclose()
        elif step == "read":
            await watched.read(model.chance.randint(len(watched.seen), len(model.changes)))
        elif step == "reopen":
            await watched.reopen()
    await watched.read(len(model.changes))


@pytest.mark.slow
# Shrinking an example of lost servers takes minutes, and its steps tell enough.
@settings(
    max_examples=10,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
@pytest.mark.parametrize("by_key", [False, True])
@given(steps=st.lists(st.sampled_from(STEPS), min_size=5, max_size=20), seed=st.integers(0, 2**32))
async def test_every_committed_change_arrives_once_whatever_is_lost(
    tmp_path_factory: pytest.TempPathFactory, by_key: bool, steps: list[str], seed: int
) -> None:
    model = Model(random.Random(seed))
    folder = tmp_path_factory.mktemp("watch")
    async with asyncio.timeout(6 * DEADLINE_S), InProcessCluster(folder, servers=2) as cluster:
        job = durable(cluster)
        await job.run(0, {"values": {}})
        proxies = [await cluster.add_proxy() for _ in range(2)]
        addresses = [proxy.address for proxy in proxies]
        async with QueryableStateClient(addresses=addresses, timeout_s=DEADLINE_S) as client:
            watched = WatchedByKey(client, model) if by_key else Watched(client, None)
            await follow(steps, model, cluster, job, proxies, watched)
            await watched.aclose()
    seen = watched.seen
    assert not [each for each in seen if each.kind is ChangeKind.GAP]
    assert [each.batch for each in seen] == sorted(each.batch for each in seen)
    assert [(each.batch, each.key) for each in seen if not each.is_old_known] == []
    assert len(seen) == len(model.changes)
    assert {(each.batch, each.key): (each.old, each.new) for each in seen} == model.changes
