"""Writes the pinned jars of the Kafka broker and connector: `testing/kafka/*.jars`.

    scripts/run.sh python scripts/pin_kafka_jars.py

Ivy resolves the versions below with all that they need at run time; PySpark has some of the
connector's already.
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import Final

import pyspark

from queryable_state.streaming.testing.kafka import CONNECTOR_PACKAGE, jars

BROKER: Final = (
    "org.apache.kafka:kafka_2.13:4.1.0",
    # Prints what Kafka logs.
    "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3",
)
TARGET: Final = Path(jars.__file__).parent


def resolved(coordinates: tuple[str, ...]) -> list[str]:
    """The lines of a list, sorted."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = jars.ivy_xml(jars.dependency(each, transitive=True) for each in coordinates)
        jars.retrieve(wanted, Path(folder))
        return sorted(
            f"{jar.stem.replace('=', ':')} {hashlib.sha256(jar.read_bytes()).hexdigest()}"
            for jar in Path(folder).glob("*.jar")
        )


def in_pyspark(line: str) -> bool:
    """True if PySpark has a jar of that artifact."""
    artifact = line.split(":")[1]
    folder = Path(pyspark.__file__).parent / "jars"
    return any(folder.glob(f"{artifact}-[0-9]*.jar"))


if __name__ == "__main__":
    pinned = {
        "broker.jars": resolved(BROKER),
        "connector.jars": [line for line in resolved((CONNECTOR_PACKAGE,)) if not in_pyspark(line)],
    }
    for name, lines in pinned.items():
        (TARGET / name).write_text("".join(f"{line}\n" for line in lines))
        print(f"{TARGET / name}: {len(lines)} jars")
