"""The two Java programs of the Flink peer: their build by Maven and their processes."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from benchmarks.child_process import LineProcess

PROJECT = Path(__file__).resolve().parent / "flink"
TARGET = PROJECT / "target"
NOT_INSTALLED = (
    "no Flink rows: they need Maven and a JDK of Java 17 "
    "(apt-get install maven openjdk-17-jdk-headless)"
)
OPENED = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.text",
    "java.base/java.time",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/java.util.concurrent.locks",
    "java.base/sun.net.util",
)
"""Packages that Flink's own configuration opens for reflection on Java 17."""


def build() -> str | None:
    """Builds the programs if they are older than their sources; returns an error or None."""
    if shutil.which("mvn") is None or shutil.which("javac") is None:
        return NOT_INSTALLED
    sources = [PROJECT / "pom.xml", *PROJECT.glob("src/**/*.java")]
    built = TARGET / "flink-peer-1.jar"
    newest = max(source.stat().st_mtime for source in sources)
    if not built.exists() or built.stat().st_mtime < newest:
        ended = subprocess.run(
            ["mvn", "-q", "-B", "package"], cwd=PROJECT, capture_output=True, text=True, check=False
        )
        if ended.returncode:
            return f"no Flink rows: mvn package in {PROJECT} failed:\n{ended.stdout[-2000:]}"
    return None


class FlinkProgram(LineProcess):
    """One JVM, driven by lines."""

    def __init__(self, name: str, *arguments: str, is_server: bool) -> None:
        java_home = os.environ.get("JAVA_HOME")
        super().__init__(
            name,
            [
                str(Path(java_home, "bin", "java")) if java_home else "java",
                "-Xmx1g",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
                *(f"--add-opens={package}=ALL-UNNAMED" for package in OPENED),
                "-cp",
                f"{TARGET / 'classes'}:{TARGET / 'lib'}/*",
                f"queryablestate.benchmarks.{name}",
                *arguments,
            ],
            end_timeout_s=10,
            own_session=is_server,
        )
