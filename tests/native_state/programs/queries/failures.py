"""Feeds that fail batches, change the state's schema, or repartition the state offline."""

from tests.native_state.programs.queries.aggregations import at
from tests.native_state.programs.written_query import WrittenQuery


def _readings(minute: int) -> list[dict[str, object]]:
    return [
        {"key": f"key-{n % 40}", "value": n, "at": at(60 * minute + n % 90)} for n in range(120)
    ]


def feed_with_failures(query: WrittenQuery) -> None:
    """Eight batches, of which three fail first: in the sink, in one partition, and twice."""
    for minute in range(8):
        if minute == 2:
            query.fail(_readings(minute))
        elif minute == 4:
            query.fail(_readings(minute), partition=1)
        elif minute == 6:
            query.fail(_readings(minute))
            query.fail(partition=0)
        query.feed(() if minute in {2, 4, 6} else _readings(minute))
    query.stop()


def feed_and_fail_last(query: WrittenQuery) -> None:
    """Four batches, then one that has failed and was not run again."""
    for minute in range(4):
        query.feed(_readings(minute))
    query.fail(_readings(4))


def feed_and_repartition(query: WrittenQuery) -> None:
    """Four batches with two partitions, then two with five."""
    for minute in range(4):
        query.feed(_readings(minute))
    query.stop()
    query.repartition(5)
    for minute in range(4, 6):
        query.feed(_readings(minute))
    query.stop()
