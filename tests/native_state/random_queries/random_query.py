"""A query drawn from a seed: its plan, the settings of its runs, its batches and its failures."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

from tests.native_state.programs.fixture import HDFS, STATE_STORE
from tests.native_state.programs.written_query import CHANGELOG_KEY, PROVIDER_KEY, ROCKSDB
from tests.native_state.random_queries.random_operators import INPUT, random_operator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.native_state.programs.written_query import WrittenQuery
    from tests.native_state.random_queries.random_operators import RandomOperator

_START = datetime(2026, 1, 1, tzinfo=UTC)
_STRICT = "spark.sql.streaming.statefulOperator.useStrictDistribution"
_PARTITIONS = "spark.sql.shuffle.partitions"

Rows = dict[str, list[dict[str, Any]]]


@dataclass
class RandomQuery:
    """What a seed gives; `str` says it in one line."""

    seed: int
    random: Random = field(init=False)
    operator: RandomOperator = field(init=False)
    settings: dict[str, str] = field(init=False)
    """Of all runs, as Spark keeps them in the checkpoint or refuses others."""
    runs: list[dict[str, str]] = field(init=False)
    """Further settings of each run."""
    steps: list[str] = field(init=False)
    """What comes before each batch but the first: nothing, or a stop, a failure, a withdrawal."""
    follows: bool = field(init=False)
    """A server follows the query while it runs."""
    lazy: bool = field(init=False)

    def __post_init__(self) -> None:
        self.random = random = Random(self.seed)
        not_strict = random.random() < 0.25
        self.operator = random_operator(random, not_strict=not_strict)
        self.settings = {**self._settings(not_strict), **self.operator.settings}
        self.follows = random.random() < 0.5
        self.lazy = random.random() < 0.3
        self.places_checked = not (not_strict or self.lazy)
        """The server checks at its start that keys lie in the partition of their hash."""
        others = ("withdraw",) if not self.follows else ()
        self.steps = random.choices(
            ("", "stop", "fail", *others), weights=(5, 2, 1, *(1 for _ in others)), k=4
        )
        self.runs = [self._run_settings() for _ in range(5)]

    def _settings(self, not_strict: bool) -> dict[str, str]:
        random = self.random
        rocksdb = self.operator.needs_rocksdb or random.random() < 0.6
        fixed = {
            PROVIDER_KEY: ROCKSDB if rocksdb else HDFS[PROVIDER_KEY],
            _PARTITIONS: str(random.choice((1, 2, 3, 5))),
            _STRICT: "false" if not_strict else "true",
            "spark.sql.timeType.enabled": "true",
            "spark.sql.streaming.minBatchesToRetain": str(random.choice((2, 100))),
        }
        if rocksdb and random.random() < 0.25:
            fixed[f"{STATE_STORE}.checkpointFormatVersion"] = "2"
        return fixed

    def _run_settings(self) -> dict[str, str]:
        random = self.random
        drawn = {
            f"{STATE_STORE}.minDeltasForSnapshot": random.choice("2310"),
            f"{STATE_STORE}.compression.codec": random.choice(("lz4", "zstd", "snappy", "lzf")),
            f"{STATE_STORE}.rowChecksum.enabled": random.choice(("true", "false", "false")),
            f"{STATE_STORE}.unloadOnCommit": random.choice(("true", "false", "false")),
            "spark.sql.streaming.checkpoint.fileChecksum.enabled": random.choice(
                ("true", "true", "false")
            ),
            CHANGELOG_KEY: random.choice(("true", "false")),
        }
        if f"{STATE_STORE}.checkpointFormatVersion" in self.settings:
            drawn[CHANGELOG_KEY] = "true"
        return drawn

    def batches(self) -> Iterator[Rows]:
        """The rows of each batch, by input; times are out of order, and some late."""
        random = self.random
        unit_us = random.choice((1, 1_000, 1_000_000))
        for minute in range(len(self.steps) + 1):
            yield {
                name: [
                    {
                        "n": random.randrange(200),
                        "v": random.randrange(100),
                        "at": self._time(60 * minute, unit_us),
                    }
                    for _ in range(random.choice((1, 30, 60)))
                ]
                for name in self.operator.inputs
            }

    def _time(self, second: int, unit_us: int) -> str:
        micros = self.random.randint(-90 * 10**6, 30 * 10**6) // unit_us * unit_us
        return (_START + timedelta(seconds=second, microseconds=micros)).isoformat()

    @property
    def inputs(self) -> dict[str, str]:
        """The schemas of the inputs."""
        return dict.fromkeys(self.operator.inputs, INPUT)

    @property
    def file_checksums(self) -> bool:
        """Each file of each run has a checksum."""
        return all(
            run["spark.sql.streaming.checkpoint.fileChecksum.enabled"] == "true"
            for run in self.runs
        )

    def __str__(self) -> str:
        said = ", ".join(f"{k.rpartition('.')[2]}={v}" for k, v in self.settings.items())
        return f"seed {self.seed}: {self.operator.name}, {said}, steps {self.steps}"


def withdraw(query: WrittenQuery) -> None:
    """Removes the newest commit and its offsets of a stopped query, so that the batch runs anew."""
    numbers = [int(p.name) for p in (query.checkpoint / "commits").iterdir() if p.name.isdigit()]
    newest = max(numbers)
    if newest == min(numbers):
        return
    for folder in ("commits", "offsets"):
        for number in (newest, newest + 1):
            (query.checkpoint / folder / str(number)).unlink(missing_ok=True)
            (query.checkpoint / folder / f".{number}.crc").unlink(missing_ok=True)
