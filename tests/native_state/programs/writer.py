"""Writes fixtures: `python -m tests.native_state.programs FOLDER [NAME...]`.

`--write` makes checkpoints with whatever pyspark runs it, `--answer` adds the answers of this
pyspark's state reader; without either, both are done.
"""

import argparse
import json
import os
import sys
import time
from fnmatch import fnmatch
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession
from tests.native_state.programs.answers import Answers
from tests.native_state.programs.archives import pack
from tests.native_state.programs.catalog import FIXTURES
from tests.native_state.programs.fixture import Fixture
from tests.native_state.programs.written_query import WrittenQuery, emptied, settings


def session() -> SparkSession:
    """A local session with two state partitions and quick maintenance."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    # The workers of pandas functions import the programs too.
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[3])
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.stateStore.maintenanceInterval", "300ms")
        .config("spark.sql.streaming.numRecentProgressUpdates", "1")
        # Beside other work a Python worker may take long to start.
        .config("spark.python.authenticate.socketTimeout", "120s")
        .getOrCreate()
    )


def write(spark: SparkSession, folder: Path, fixture: Fixture) -> None:
    """Writes the checkpoint, and `query.json` about the query.

    It stays where it was written: newer metadata names schema files by their absolute path, and
    Spark's reader follows it.
    """
    emptied(folder)
    query = WrittenQuery(
        spark,
        folder,
        inputs=fixture.inputs,
        plan=fixture.plan,
        output_mode=fixture.output_mode,
        once=fixture.once,
        keeps_output=fixture.keeps_output,
    )
    with settings(spark, fixture.settings):
        try:
            fixture.feed(query)
        finally:
            query.stop()
    about = {
        "name": fixture.name,
        "spark": pyspark.__version__,
        "inputs": dict(fixture.inputs),
        "settings": dict(fixture.settings),
        "output_mode": fixture.output_mode,
        "program": f"{fixture.plan.__module__}.{fixture.plan.__name__}",
        "feed": f"{fixture.feed.__module__}.{fixture.feed.__name__}",
    }
    (folder / "query.json").write_text(json.dumps(about, indent=1))


def answer(spark: SparkSession, folder: Path) -> None:
    """Adds the reader's answers, and what it says of operators and schemas."""
    answers = Answers(spark, folder)
    about = json.loads((folder / "query.json").read_text())
    about["reader"] = pyspark.__version__
    about["batches"] = answers.batches()
    about["operators"] = answers.operators()
    # The reader takes the version of the checkpoint format from its own session.
    with settings(spark, about["settings"]):
        about["expected"] = answers.write()
    about["problems"] = answers.problems
    (folder / "query.json").write_text(json.dumps(about, indent=1, default=str))
    for problem in answers.problems:
        sys.stderr.write(f"{folder.name}: {problem}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--answer", action="store_true")
    parser.add_argument("--pack", action="store_true", help="also archives for the tests")
    chosen = parser.parse_args()
    spark = session()
    failed = []
    written = {fixture.name: fixture for fixture in FIXTURES}
    # Answers are also for what another version has written.
    known = {path.name for path in chosen.folder.iterdir()} if chosen.answer else set(written)
    for name in sorted(known):
        if chosen.names and not any(fnmatch(name, each) for each in chosen.names):
            continue
        folder = chosen.folder / name
        try:
            if not chosen.answer:
                write(spark, folder, written[name])
            if not chosen.write and not (folder / "output").exists():
                answer(spark, folder)
            if chosen.pack:
                pack(folder, name)
        except Exception as error:  # noqa: BLE001 - the others are written all the same
            failed.append(name)
            sys.stderr.write(f"{name}: {type(error).__name__}: {str(error)[:3000]}\n")
        else:
            sys.stdout.write(f"{name} done\n")
            sys.stdout.flush()
    spark.stop()
    if failed:
        sys.exit(f"failed: {' '.join(failed)}")
