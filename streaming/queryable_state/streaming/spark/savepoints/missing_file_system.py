"""The error for a folder whose file system Spark's Hadoop does not have."""

from __future__ import annotations

import re
from typing import Final

from queryable_state.wire.errors import CheckpointError

_S3A: Final = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_MISSING: Final = (
    "No FileSystem for scheme",
    "ClassNotFoundException",
    "NoClassDefFoundError",
)


def folder_error(path: str, java_message: str, hadoop_version: str) -> CheckpointError:
    """The error for a folder that Spark cannot access.

    If the file system's classes or their setting are missing, it names both. `java_message` is the
    text of the Java exception, `hadoop_version` the version of Spark's Hadoop.
    """
    first = java_message.partition("\n")[0]
    what = f"Spark cannot access the folder {path!r}: {first}"
    if not any(each in java_message for each in _MISSING):
        return CheckpointError(what)
    found = re.match(r"([a-z0-9+.-]+):", path, re.IGNORECASE)
    scheme = found[1].lower() if found else ""
    if scheme not in ("s3", "s3a", "s3n"):
        return CheckpointError(
            f"{what}. Spark writes its own checkpoint there through Hadoop: add the Hadoop file "
            f"system of the scheme {scheme!r} to the classes of driver and executors "
            f"(spark.jars.packages), and set spark.hadoop.fs.{scheme}.impl to its class"
        )
    setting = f", and set spark.hadoop.fs.{scheme}.impl={_S3A}" if scheme != "s3a" else ""
    return CheckpointError(
        f"{what}. Spark writes its own checkpoint there through Hadoop, which PySpark has without "
        f"S3: set spark.jars.packages=org.apache.hadoop:hadoop-aws:{hadoop_version} (or put this "
        f"jar and those that it needs into Spark's folder of jars){setting}. Endpoint and "
        "credentials of this access are spark.hadoop.fs.s3a.*: see docs/checkpoints.md, A job on S3"
    )
