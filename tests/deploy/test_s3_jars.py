"""The Spark image has the jars by which Spark reaches S3, those of PySpark's Hadoop."""

from __future__ import annotations

import re
from pathlib import Path

import pyspark

DOCKERFILE = (Path(__file__).parents[2] / "deploy" / "docker" / "Dockerfile").read_text()
DOCS = (Path(__file__).parents[2] / "docs" / "checkpoints.md").read_text()


def _hadoop() -> str:
    [jar] = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    return jar.stem.rpartition("-")[2]


def test_hadoop_aws_of_image_and_docs_has_the_version_of_pysparks_hadoop() -> None:
    assert re.findall(r"/hadoop-aws-([\d.]+)\.jar", DOCKERFILE) == [_hadoop()]
    assert re.findall(r"hadoop-aws:([\d.]+)`", DOCS) == [_hadoop()]


def test_every_download_has_a_checksum() -> None:
    adds = re.findall(r"^ADD (.*?)(?<!\\)$", DOCKERFILE, re.MULTILINE | re.DOTALL)
    jars = ["hadoop-aws", "bundle", "analyticsaccelerator-s3", "wildfly-openssl"]
    assert len(adds) == len(jars)
    for add, jar in zip(adds, jars, strict=True):
        assert re.match(rf"--checksum=sha256:[0-9a-f]{{64}} .*/{jar}-[^/]*\.jar ", add, re.DOTALL)
