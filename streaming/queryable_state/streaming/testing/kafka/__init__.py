"""A Kafka broker for tests and examples, and Spark's Kafka connector.

`pip install 'spark-queryable-state[kafka]'`; the jars come from Maven Central when first used.
"""

from queryable_state.streaming.testing.kafka.broker import BrokerError, KafkaBroker
from queryable_state.streaming.testing.kafka.connector import CONNECTOR_PACKAGE, connector_jars
from queryable_state.streaming.testing.kafka.jars import JarsUnavailableError

__all__ = [
    "CONNECTOR_PACKAGE",
    "BrokerError",
    "JarsUnavailableError",
    "KafkaBroker",
    "connector_jars",
]
