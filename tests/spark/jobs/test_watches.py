"""Watches of a running job, by the Python client and as server-sent events."""

from __future__ import annotations

import json
import threading
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.counting_jobs import KEYS, Jobs, readings
from tests.spark.functions import READINGS
from tests.waiting import until

from queryable_state.client import ChangeKind

if TYPE_CHECKING:
    from pathlib import Path

    from tests.spark.conftest import Connect, MakeFeed, NewEnvironment

    from queryable_state.client import Change
    from queryable_state.client.blocking import QueryableStateClient

# Each commit writes every key.
BATCHES = 5


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_commit_of_a_running_job_arrives_once(
    new_environment: NewEnvironment, feed: MakeFeed, connect: Connect, tmp_path: Path
) -> None:
    env = new_environment(web="on", web_ports="0")
    source = feed(READINGS)
    job = Jobs(env, source, connect, tmp_path / "jobs").counting("watched")
    source.add(*readings())
    job.process_all_available()
    events: list[dict[str, Any]] = []
    changes: list[Change] = []

    def follow_events(address: str) -> None:
        path = f"api/v1/jobs/watched/states/count/watch?key={KEYS[3]}"
        with urllib.request.urlopen(f"{address.rstrip('/')}/{path}", timeout=60) as answer:
            for line in answer:
                if line.startswith(b"data: "):
                    events.append(json.loads(line.removeprefix(b"data: ")))
                if sum(len(each["changes"]) for each in events) == BATCHES:
                    return

    def follow_changes(client: QueryableStateClient) -> None:
        with client.watch("watched", "count", after_batch=0) as watch:
            for change in watch:
                changes.append(change)
                if len(changes) == BATCHES * len(KEYS):
                    return

    web = threading.Thread(target=follow_events, args=(job.web_address(),), daemon=True)
    watching = threading.Thread(target=follow_changes, args=(connect(job),), daemon=True)
    web.start()
    watching.start()
    # The first event: the watch is open.
    until(lambda: events, timeout_s=60)
    for _ in range(BATCHES):
        source.add(*readings())
        job.process_all_available()
    watching.join(60)
    web.join(60)
    assert [each.batch for each in changes] == sorted(each.batch for each in changes)
    found = {(each.key, each.batch): (each.kind, each.old, each.new) for each in changes}
    assert len(changes) == len(found) == BATCHES * len(KEYS)
    assert found == {
        (key, batch): (ChangeKind.PUT, batch, batch + 1)
        for key in KEYS
        for batch in range(1, BATCHES + 1)
    }
    assert [
        (each["batch"], change["key"], change["old_value"], change["value"])
        for each in events
        for change in each["changes"]
    ] == [(batch, KEYS[3], batch, batch + 1) for batch in range(1, BATCHES + 1)]
