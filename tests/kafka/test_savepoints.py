"""Savepoints of jobs that read from Kafka: the next job begins at the offsets of the savepoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.kafka.topic_numbers import Numbers, counted

if TYPE_CHECKING:
    from tests.kafka.conftest import StartProgram

    from queryable_state.streaming.testing.kafka import KafkaBroker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("rocksdb", 2), ("heap", 3)),
        pytest.param(("heap", 3), ("rocksdb", 1), marks=pytest.mark.wide),
    ],
)
def test_a_job_from_a_savepoint_begins_at_its_offsets(
    broker: KafkaBroker,
    program: StartProgram,
    tmp_path: Path,
    before: tuple[str, int],
    after: tuple[str, int],
) -> None:
    """With another backend and parallelism, a partition more, and whatever startingOffsets says."""
    broker.create_topic("numbers", 2)
    broker.create_topic("numbers-counted")
    numbers = Numbers(broker)
    numbers.write(3_000)
    first = program(*of(*before), "--savepoint-to", str(tmp_path / "savepoints")).result()
    emitted = counted(broker, "numbers-counted")
    assert sorted(emitted) == [(number, 1) for number in range(3_000)]
    numbers.write(500)
    broker.add_partitions("numbers", 3)
    numbers.write(500, partition=2)
    second = program(
        *of(*after),
        *("--name", "second", "--savepoint", first["savepoint"]),
        *("--starting-offsets", "latest", "--finish"),
    ).result()
    assert second["began_at"] == [offsets_in(first["savepoint"])]
    assert second["state"] == {str(number): 1 for number in range(4_000)}
    behind = counted(broker, "numbers-counted")[len(emitted) :]
    assert sorted(behind) == [(number, 1) for number in range(3_000, 4_000)]


def test_a_savepoint_of_a_running_job_has_the_offsets_of_its_state(
    broker: KafkaBroker, program: StartProgram, tmp_path: Path
) -> None:
    """Numbers arrive, and batches go on, while it is written."""
    broker.create_topic("numbers", 2)
    broker.create_topic("numbers-counted")
    with Numbers(broker) as numbers:
        first = program("--running", "--savepoint-to", str(tmp_path / "savepoints")).result()
    second = program("--name", "second", "--savepoint", first["savepoint"], "--finish").result()
    assert second["began_at"] == [offsets_in(first["savepoint"])]
    assert second["state"] == {str(number): 1 for number in range(numbers.written)}


def of(backend: str, parallelism: int) -> tuple[str, ...]:
    return ("--backend", backend, "--parallelism", str(parallelism))


def offsets_in(savepoint: str) -> dict[str, dict[str, int]]:
    """The offsets in the newest file of a savepoint's `spark/offsets`."""
    folder = Path(savepoint.removeprefix("file://")) / "spark" / "offsets"
    newest = max(int(each.name) for each in folder.iterdir())
    found: dict[str, dict[str, int]] = json.loads((folder / str(newest)).read_text().split("\n")[2])
    return found
