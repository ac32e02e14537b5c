"""A program that stops Spark, not its environment, and prints what is left; for test_lifecycle."""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil
from pyspark.sql import SparkSession

from queryable_state.streaming import StreamExecutionEnvironment


def servers() -> list[psutil.Process]:
    """State servers started by this program's executors."""
    found = []
    for process in psutil.process_iter():
        try:
            command, environment = process.cmdline(), process.environ()
        except (psutil.Error, OSError):
            continue
        mine = environment.get("LIFECYCLE_TEST") == sys.argv[1]
        if mine and "queryable_state.server.state_server" in command:
            found.append(process)
    return found


def main() -> None:
    spark = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.queryable_state.directory", sys.argv[2])
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    source = Path(tempfile.mkdtemp(dir=sys.argv[2]))
    (source / "0.json").write_text('{"sensor": "a", "temperature": 1.0}\n')
    env = StreamExecutionEnvironment.get_execution_environment(spark)
    stream = env.from_dataframe(
        spark.readStream.schema("sensor string, temperature double").json(str(source))
    )
    stream.key_by("sensor").as_queryable_state("last").uid("last")
    env.execute_async("lifecycle").process_all_available()
    running = servers()
    folders = list(Path(sys.argv[2]).glob("queryable-state-*"))
    spark.stop()
    deadline = time.monotonic() + 30

    def threads() -> list[str]:
        return [t.name for t in threading.enumerate() if t.name.startswith("queryable-state")]

    def alive() -> list[psutil.Process]:
        # One that has ended may stay a zombie of the worker that started it.
        return [
            server
            for server in running
            if server.is_running() and server.status() != psutil.STATUS_ZOMBIE
        ]

    while (threads() or alive()) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = {
        "started": len(running),
        "servers": len(alive()),
        "threads": threads(),
        "stores": [str(path) for folder in folders for path in folder.glob("stores/*")],
    }
    sys.stdout.write("LEFT " + json.dumps(left) + "\n")


main()
