"""Archives the classes that Spark loads, so that each JVM of the tests starts with half the work.

    scripts/run.sh python scripts/archive_spark_classes.py

Does nothing if the archive is newer than what is installed. Runs small queries in a JVM that writes
the archive when it ends: https://docs.oracle.com/en/java/javase/17/vm/class-data-sharing.html. A
JVM whose Java or class path is another one cannot use the archive, and starts as without.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from queryable_state.streaming import StreamExecutionEnvironment

_VENV = Path(__file__).parents[1] / ".venv"
_INSTALLED, _ARCHIVE = _VENV / ".setup-stamp", _VENV / "spark-classes.jsa"
_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:cds=off -Xlog:cds+dynamic=off"
_ROWS = [{"key": f"key_{number % 3}", "value": number} for number in range(10)]


def archive() -> None:
    """Writes the archive; an older one stays as it is until the new one is whole."""
    unfinished = _ARCHIVE.with_suffix(f".{os.getpid()}")
    os.environ["JDK_JAVA_OPTIONS"] = f'{_OPTIONS} -XX:ArchiveClassesAtExit="{unfinished}"'
    with tempfile.TemporaryDirectory() as folder:
        run_queries(Path(folder))
    # The JVM writes the archive after the end of its session.
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
    if unfinished.exists():
        unfinished.replace(_ARCHIVE)
    else:
        print("this Java cannot archive classes: each JVM of the tests starts slowly", flush=True)


def run_queries(folder: Path) -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    source = folder / "source"
    source.mkdir()
    (source / "rows.json").write_text("\n".join(map(json.dumps, _ROWS)))
    rows = spark.readStream.schema("key STRING, value BIGINT").json(str(source))
    env = StreamExecutionEnvironment.get_execution_environment(spark)
    env.from_dataframe(rows).key_by("key").as_queryable_state("last").uid("last")
    job = env.execute_async("archive", checkpoint_location=str(folder / "job"))
    job.process_all_available()
    job.cancel()
    spark.conf.set(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    )
    query = (
        rows.groupBy("key")
        .agg(F.sum("value"))
        .writeStream.outputMode("update")
        .option("checkpointLocation", str(folder / "query"))
        .foreachBatch(lambda batch, _: batch.write.mode("append").parquet(str(folder / "sums")))
        .start()
    )
    query.processAllAvailable()
    query.stop()
    spark.read.parquet(str(folder / "sums")).collect()
    spark.stop()


def main() -> None:
    if _ARCHIVE.exists() and _ARCHIVE.stat().st_mtime > _INSTALLED.stat().st_mtime:
        return
    print("archiving the classes of Spark for the tests that start JVMs", flush=True)
    logging.disable(logging.WARNING)
    archive()


if __name__ == "__main__":
    main()
