"""A program whose workers run one Python after another, and prints what becomes of a job; for
test_worker_python. Arguments: a folder, and a Python without the package."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from queryable_state.streaming import StreamExecutionEnvironment
from queryable_state.wire.errors import InvalidRequestError


def main(folder: Path, bare: str) -> None:
    source = folder / "source"
    source.mkdir()
    (source / "0.json").write_text('{"sensor": "a", "temperature": 1.0}\n')
    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        "--master local[2,4] --conf spark.ui.enabled=false "
        "--conf spark.sql.shuffle.partitions=2 pyspark-shell"
    )
    run(source, "made here", StreamExecutionEnvironment.get_execution_environment())
    os.environ["PYSPARK_PYTHON"] = bare
    session = SparkSession.builder.master("local[2,4]").getOrCreate()
    env = StreamExecutionEnvironment.get_execution_environment(session)
    run(source, "of the user", env)
    run(source, "tried again", env)
    session.stop()


def run(source: Path, label: str, env: StreamExecutionEnvironment) -> None:
    """Runs a job of one batch, in a new SparkContext where it ends well."""
    session = SparkSession.active()
    frame = session.readStream.schema("sensor string, temperature double").json(str(source))
    result = "ran"
    try:
        env.from_dataframe(frame).key_by("sensor").as_queryable_state("last").uid("last")
        env.execute_async("job").process_all_available()
    except InvalidRequestError as refusal:
        result = str(refusal).splitlines()[0]
    else:
        session.stop()
    print(f"RESULT {label}: {result}", flush=True)  # noqa: T201 - read by the test


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
