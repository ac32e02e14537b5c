"""Numbers of a topic: who writes them, and what was written to another topic."""

from __future__ import annotations

import json
import logging
import threading
import time
from typing import TYPE_CHECKING, Final, Self

from confluent_kafka import Consumer, Producer, TopicPartition
from tests.waiting import until

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

    from queryable_state.streaming.testing.kafka import KafkaBroker

KEYS: Final = [f"key_{number}" for number in range(20)]
_DEADLINE_S: Final = 120.0

quiet = logging.getLogger("librdkafka of the tests")
quiet.addHandler(logging.NullHandler())
quiet.propagate = False


class Numbers:
    """A producer of the numbers 0, 1, 2, ... to a topic; idempotent, over ends of the broker too.

    `with` writes in the background, `write` at once.
    """

    def __init__(self, broker: KafkaBroker, topic: str = "numbers", *, per_s: int = 200) -> None:
        self._topic = topic
        self._per_s = per_s
        self._written = 0
        self._failed: list[str] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="numbers")
        self._producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 5,
                "reconnect.backoff.max.ms": 500,
                "message.timeout.ms": 300_000,
            },
            logger=quiet,
        )

    @property
    def written(self) -> int:
        """How many numbers the topic has: all below this one. Correct after the block."""
        return self._written

    def write(self, count: int, partition: int = -1) -> None:
        """Writes numbers and waits until the topic has them."""
        # The producer learns of a new partition from the topic's metadata.
        until(lambda: partition < self._partitions())
        for number in range(self._written, self._written + count):
            self._send(number, partition)
        self._written += count
        self._flush()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._ending.set()
        self._thread.join()
        self._flush()

    def _run(self) -> None:
        while not self._ending.wait(0.05):
            for _ in range(self._per_s // 20):
                self._send(self._written)
                self._written += 1
            self._producer.poll(0)

    def _partitions(self) -> int:
        metadata = self._producer.list_topics(self._topic, timeout=30)
        return len(metadata.topics[self._topic].partitions)

    def _send(self, number: int, partition: int = -1) -> None:
        key = KEYS[number * 7 % len(KEYS)]
        self._producer.produce(
            self._topic, key=key, value=str(number), partition=partition, on_delivery=self._sent
        )

    def _sent(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed.append(f"{message.value()!r}: {error}")

    def _flush(self) -> None:
        assert self._producer.flush(_DEADLINE_S) == 0, "the broker does not take the numbers"
        assert not self._failed, self._failed[:3]


def counted(broker: KafkaBroker, topic: str) -> list[tuple[int, int]]:
    """The rows (number, times) of a topic."""
    rows = [json.loads(value) for value in records(broker, topic)]
    return [(row["number"], row["times"]) for row in rows]


def records(broker: KafkaBroker, topic: str) -> list[bytes]:
    """The values of all records of a topic."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "check"}, logger=quiet
    )
    try:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        return [value for each in partitions for value in _values(consumer, topic, each)]
    finally:
        consumer.close()


def _values(consumer: Consumer, topic: str, partition: int) -> list[bytes]:
    place = TopicPartition(topic, partition, 0)
    end = consumer.get_watermark_offsets(place, timeout=30)[1]
    consumer.assign([place])
    values = []
    next_offset = 0
    deadline = time.monotonic() + _DEADLINE_S
    while next_offset < end:
        message = consumer.poll(1)
        assert time.monotonic() < deadline, f"{topic}-{partition} ends before offset {end}"
        if message is not None and message.error() is None:
            values.append(message.value() or b"")
            next_offset = (message.offset() or 0) + 1
    return values
