"""Jobs that count readings, for tests of what follows one another."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.spark.functions import COUNTS, CountPerKey

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.spark.conftest import Connect
    from tests.spark.feed import Feed

    from queryable_state.streaming import JobClient, StreamExecutionEnvironment

KEYS = [f"sensor-{number}" for number in range(40)]


def readings(keys: Iterable[str] = KEYS, temperature: float = 1.0) -> list[dict[str, object]]:
    return [{"sensor": key, "temperature": temperature} for key in keys]


class Jobs:
    """Starts jobs that count readings, each with a checkpoint location of its own."""

    def __init__(
        self, env: StreamExecutionEnvironment, source: Feed, connect: Connect, folder: Path
    ) -> None:
        self.env = env
        self.source = source
        self.connect = connect
        self.folder = folder

    def counting(self, name: str, **options: Any) -> JobClient:
        """A job whose only operator counts the readings of each sensor."""
        keyed = self.env.from_dataframe(self.source.dataframe()).key_by("sensor")
        keyed.process(CountPerKey(), COUNTS).uid("counts")
        return self.start(name, **options)

    def start(self, name: str, **options: Any) -> JobClient:
        """What the environment has collected."""
        return self.env.execute_async(name, checkpoint_location=str(self.folder / name), **options)

    def savepoint(self, job: JobClient, *, stop: bool = False) -> str:
        """The URI of a savepoint made now."""
        directory = str(self.folder / "savepoints")
        if stop:
            return job.stop_with_savepoint(False, directory).result()
        return job.trigger_savepoint(directory).result()

    def values(self, job: JobClient, name: str = "count") -> Counter[object]:
        """How many keys have each value of a state."""
        states = self.connect(job).get_kv_states(job.job_id, name, KEYS)
        read = "value" if name == "count" else "get"
        return Counter(None if state is None else getattr(state, read)() for state in states)
