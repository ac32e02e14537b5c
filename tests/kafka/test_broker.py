"""The broker of `testing.kafka`: its records stay, it ends with its program, errors say why."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import psutil
import pytest
from confluent_kafka import KafkaException
from tests.kafka.topic_numbers import Numbers, records
from tests.waiting import until

from queryable_state.streaming.testing.kafka import BrokerError, JarsUnavailableError, KafkaBroker
from queryable_state.streaming.testing.kafka.jars import Jar, resolve

if TYPE_CHECKING:
    from pathlib import Path

# A broker has a minute for each of its starts.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(400), pytest.mark.usefixtures("jars")]


def test_records_stay_over_kill_and_stop(broker: KafkaBroker) -> None:
    broker.create_topic("numbers", 2)
    numbers = Numbers(broker)
    servers = broker.bootstrap_servers
    for end in (broker.kill, broker.stop):
        numbers.write(100)
        end()
        assert not broker.is_running
        with pytest.raises(BrokerError, match="does not run"):
            _ = broker.pid
        broker.start()
    assert broker.bootstrap_servers == servers
    assert len(records(broker, "numbers")) == 200


def test_a_broker_in_the_folder_of_an_earlier_one_has_its_records_and_address(
    tmp_path: Path,
) -> None:
    with KafkaBroker(tmp_path / "kafka") as first:
        first.create_topic("numbers")
        Numbers(first).write(100)
    with KafkaBroker(tmp_path / "kafka") as second:
        assert second.bootstrap_servers == first.bootstrap_servers
        assert len(records(second, "numbers")) == 100


def test_a_broker_ends_with_its_program(tmp_path: Path) -> None:
    """Also if the program is killed."""
    program = f"""
        from pathlib import Path
        from queryable_state.streaming.testing.kafka import KafkaBroker
        broker = KafkaBroker(Path({str(tmp_path / "kafka")!r}))
        broker.start()
        print(broker.pid, flush=True)
        input()
    """
    started = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert started.stdout is not None
    pid = int(started.stdout.readline())
    assert psutil.pid_exists(pid)
    started.kill()
    started.communicate()
    until(lambda: not psutil.pid_exists(pid) or is_zombie(pid))


def is_zombie(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_broker_that_cannot_start_says_why(tmp_path: Path) -> None:
    broker = KafkaBroker(tmp_path / "kafka", properties={"num.network.threads": "none"})
    with pytest.raises(BrokerError, match=r"num\.network\.threads"):
        broker.start()


def test_a_running_broker_is_not_started_again(broker: KafkaBroker) -> None:
    with pytest.raises(BrokerError, match=f"runs already .pid {broker.pid}"):
        broker.start()
    broker.create_topic("numbers")
    with pytest.raises(KafkaException, match="already exists"):
        broker.create_topic("numbers")


def test_a_jar_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = Jar("org.apache.kafka", "kafka-clients", "0.0.1", "00")
    with pytest.raises(JarsUnavailableError, match=r"(?s)Maven Central.*kafka-clients;0\.0\.1"):
        resolve([missing], tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_jar_with_another_checksum_is_refused(tmp_path: Path) -> None:
    other = Jar("org.slf4j", "slf4j-api", "1.7.36", "00")
    with pytest.raises(JarsUnavailableError, match=r"slf4j-api:1\.7\.36 .* SHA-256 00"):
        resolve([other], tmp_path)
    assert not list(tmp_path.iterdir())
