"""A broker that is down for longer than the timeouts of its clients."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from tests.kafka.topic_numbers import KEYS, Numbers
from tests.waiting import until

from queryable_state.client import QueryableStateError
from queryable_state.client.blocking import QueryableStateClient

if TYPE_CHECKING:
    from tests.kafka.conftest import StartProgram

    from queryable_state.streaming.testing.kafka import KafkaBroker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SHORT = {
    "kafka.request.timeout.ms": "1000",
    "kafka.default.api.timeout.ms": "2000",
    "fetchOffset.numRetries": "1",
}
"""Options of the source under which a batch fails after some seconds without a broker."""


def test_queries_are_answered_while_the_broker_is_down_and_the_job_goes_on_behind(
    broker: KafkaBroker, program: StartProgram
) -> None:
    broker.create_topic("numbers", 2)
    broker.create_topic("numbers-counted")
    numbers = Numbers(broker)
    numbers.write(1_000)
    short = [f"--source-option={name}={value}" for name, value in SHORT.items()]
    running = program(*short)
    job_id, proxy = running.started()
    host, _, port = proxy.rpartition(":")
    with QueryableStateClient(host, int(port), timeout_s=30) as client:

        def is_known() -> bool:
            with contextlib.suppress(QueryableStateError):  # before the first batch
                return bool(counts())
            return False

        def counts() -> dict[int, int]:
            states = client.get_kv_states(job_id, "times", KEYS)
            return {number: times for state in states if state for number, times in state.items()}

        def has_counted(total: int) -> bool:
            assert running.is_running, running.log()
            return counts() == dict.fromkeys(range(total), 1)

        until(is_known, timeout_s=120)
        until(lambda: has_counted(1_000), timeout_s=120)
        broker.kill()
        until(lambda: running.restarts() >= 2, timeout_s=180)
        assert has_counted(1_000), "answered from the last committed batch"
        broker.start()
        numbers.write(1_000)
        until(lambda: has_counted(2_000), timeout_s=180)
