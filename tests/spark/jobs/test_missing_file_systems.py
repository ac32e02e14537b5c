"""A location that Spark cannot access without further jars is refused at the job's start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.spark.functions import READINGS

from queryable_state.streaming.spark.savepoints.spark_files import SparkFiles
from queryable_state.wire.errors import CheckpointError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.spark.conftest import MakeFeed, NewEnvironment

PACKAGE = r"spark\.jars\.packages=org\.apache\.hadoop:hadoop-aws:3\.\d+\.\d+ "
SETTING = r"spark\.hadoop\.fs\.s3\.impl=org\.apache\.hadoop\.fs\.s3a\.S3AFileSystem"


def test_a_job_on_s3_names_package_and_setting(
    new_environment: NewEnvironment, feed: MakeFeed
) -> None:
    env = new_environment(changelog="off")
    keyed = env.from_dataframe(feed(READINGS).dataframe()).key_by("sensor")
    keyed.as_queryable_state("latest").uid("latest")
    with pytest.raises(CheckpointError, match=f"No FileSystem for scheme.*{PACKAGE}.*{SETTING}"):
        env.execute_async("on s3", checkpoint_location="s3://bucket/job")


def test_s3a_has_its_setting_already(spark: SparkSession) -> None:
    with pytest.raises(CheckpointError, match=rf"ClassNotFoundException.*{PACKAGE}") as caught:
        SparkFiles.of(spark.sparkContext, "s3a://bucket/job")
    assert "fs.s3a.impl" not in str(caught.value)


def test_another_scheme_names_its_setting(spark: SparkSession) -> None:
    with pytest.raises(CheckpointError, match=r"No FileSystem.*spark\.hadoop\.fs\.nosuch\.impl"):
        SparkFiles.of(spark.sparkContext, "nosuch://bucket/job")


def test_another_mistake_names_no_package(spark: SparkSession) -> None:
    with pytest.raises(CheckpointError, match="cannot access the folder 'hdfs:///job'") as caught:
        SparkFiles.of(spark.sparkContext, "hdfs:///job")
    assert "packages" not in str(caught.value)
