"""The code of docs/kafka.md against a broker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from tests.kafka.topic_numbers import records
from tests.killed_programs import temporary_files_in

if TYPE_CHECKING:
    from queryable_state.streaming.testing.kafka import KafkaBroker

PROGRAM = Path(__file__).with_name("page_program.py")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_code_blocks_run_as_printed(broker: KafkaBroker, tmp_path: Path) -> None:
    broker.create_topic("clicks", 2)
    broker.create_topic("users")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(100):
        click = {"user": f"user_{number % 7}", "page": f"/{number}"}
        producer.produce("clicks", key=click["user"], value=json.dumps(click))
    assert producer.flush(60) == 0
    shared = tmp_path / "shared"  # The page has a broker of its own in /shared/kafka.
    done = subprocess.run(
        [sys.executable, str(PROGRAM), broker.bootstrap_servers, str(shared)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **temporary_files_in(tmp_path / "tmp")},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert records(broker, "users"), "the sink has written"
