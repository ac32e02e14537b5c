"""The shipped jobs in one Spark session, for the code blocks of the documentation."""

from __future__ import annotations

import importlib.util
import os
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from pyspark import SparkContext, cloudpickle
from pyspark.sql import SparkSession
from tests.docs.pages import ROOT

from queryable_state.streaming import StreamExecutionEnvironment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

    from queryable_state.streaming import JobClient

CHECKPOINTS_DIR = "spark.queryable_state.state.checkpoints.dir"
FLIGHTS = 4_000


@dataclass(frozen=True)
class Site:
    """Where the blocks run: addresses, folders and jobs."""

    spark: SparkSession
    folder: Path
    """Stands for `/shared` and for buckets."""
    proxy: str
    coordinator: str
    secret_file: Path
    jobs: tuple[JobClient, ...]
    files: set[str] = field(default_factory=set)
    """Files in `folder` that the page has shown."""

    def localized(self, text: str) -> str:
        """The text with the addresses and folders of this site; nothing else is changed."""
        host, _, port = self.proxy.rpartition(":")
        for printed, here in (
            ("localhost:9069", self.proxy),
            ('"localhost", 9069', f'"{host}", {port}'),
            ("localhost:6123", self.coordinator),
            ("job.secret", str(self.secret_file)),
            ("s3://bucket/", f"{self.folder}/"),
            ("s3a://bucket/", f"{self.folder}/"),
            ("/shared/", f"{self.folder}/"),
        ):
            text = text.replace(printed, here)
        for name in self.files:
            text = text.replace(name, str(self.folder / name))
        return text

    def stop_others(self) -> None:
        """Stops the queries that a page has started."""
        ours = {job.query.id for job in self.jobs}
        for query in self.spark.streams.active:
            if query.id not in ours:
                query.stop()
        self.spark.conf.unset(CHECKPOINTS_DIR)


def example(name: str) -> ModuleType:
    """A program of examples/, as a module that Spark's workers need not find."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return module


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The temperature job and the flights job, with state that survives, on some of their input."""
    folder = tmp_path_factory.mktemp("shared")
    # The settings of the session that starts the JVM would be system properties of all later ones.
    SparkContext._ensure_initialized()
    spark = (
        SparkSession.builder.master("local[2,4]")
        .appName("docs")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    spark.conf.set(CHECKPOINTS_DIR, str(folder / "state"))
    env = StreamExecutionEnvironment.get_execution_environment(spark)
    temperature, flights = example("temperature_job"), example("flights")

    temperature.declare(env, temperature.readings(spark, 24), threshold=3.5)
    sensors = env.execute_async(temperature.JOB_NAME, trigger={"processingTime": "2 seconds"})
    flights.FILES = flights.FILES_PER_BATCH  # type: ignore[attr-defined] # one batch
    table = flights.flights_table().dropna(subset=["tailnum"]).iloc[:FLIGHTS]
    flights.write_input(table, folder / "flights")
    flights.declare(env, flights.source(spark, folder / "flights" / "in"))
    carriers = env.execute_async("flights")
    carriers.process_all_available()
    carriers.trigger_checkpoint()
    yield Site(
        spark=spark,
        folder=folder,
        proxy=sensors.proxy_address(),
        coordinator=env.coordinator_address,
        secret_file=env.secret_file,
        jobs=(sensors, carriers),
    )
    # A query outlives its session, and a source of files is looked at for ever.
    for query in spark.streams.active:
        query.stop()
    env.close()
    spark.stop()


@pytest.fixture
def path_of_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of .venv are found first, as behind scripts/run.sh."""
    tools = ROOT / ".venv" / "bin"
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
