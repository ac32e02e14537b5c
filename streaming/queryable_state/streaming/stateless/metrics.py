"""Metrics of user functions: counters, meters, gauges and distributions by group.

A function asks for them in `open` by `runtime_context.get_metrics_group()` and changes them while
it processes elements. What they count in a batch is added to the metrics of the state server that
owns the subtask once the batch is committed, so a batch that runs again counts once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TypeVar

from queryable_state.internal.v1.user_metrics_pb2 import UserMetric
from queryable_state.wire.errors import InvalidRequestError, JobError, LimitExceededError, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Counter", "Distribution", "Meter", "Metric", "MetricGroup"]

MOST_METRICS = 256
"""Metrics of one subtask of an operator."""
MOST_NAME_CHARACTERS = 200


class Metric(ABC):
    """A metric of one task in one batch."""

    @abstractmethod
    def reported(self) -> UserMetric:
        """What it counted in the batch, without groups and name."""


class Counter(Metric):
    """A number that grows and shrinks."""

    def __init__(self) -> None:
        self._count = 0

    def inc(self, n: int = 1) -> None:
        """Adds `n`."""
        self._count += n

    def dec(self, n: int = 1) -> None:
        """Takes `n` away."""
        self._count -= n

    def get_count(self) -> int:
        """The count of this task in this batch."""
        return self._count

    def reported(self) -> UserMetric:
        return UserMetric(kind=UserMetric.COUNTER, value=self._count)


class Meter(Metric):
    """Number of events; `rate()` of Prometheus is their rate."""

    def __init__(self) -> None:
        self._count = 0

    def mark_event(self, value: int = 1) -> None:
        """Adds `value` events."""
        if value < 0:
            raise InvalidRequestError(f"mark_event({value}): a number of events is not negative")
        self._count += value

    def get_count(self) -> int:
        """The events of this task in this batch."""
        return self._count

    def reported(self) -> UserMetric:
        return UserMetric(kind=UserMetric.METER, value=self._count)


class Gauge(Metric):
    """A function whose result is read at the end of each batch."""

    def __init__(self, read: Callable[[], float]) -> None:
        self._read = read

    def get_value(self) -> float:
        """The value now."""
        return self._read()

    def reported(self) -> UserMetric:
        return UserMetric(kind=UserMetric.GAUGE, value=self._read())


class Distribution(Metric):
    """Number, sum, least and largest of some values."""

    def __init__(self) -> None:
        self._count = 0
        self._sum: float = 0
        self._least: float = 0
        self._largest: float = 0

    def update(self, value: float) -> None:
        """Adds a value."""
        self._least = min(self._least, value) if self._count else value
        self._largest = max(self._largest, value) if self._count else value
        self._count += 1
        self._sum += value

    def reported(self) -> UserMetric:
        return UserMetric(
            kind=UserMetric.DISTRIBUTION,
            value=self._sum,
            count=self._count,
            least=self._least,
            largest=self._largest,
        )


_Metric = TypeVar("_Metric", bound=Metric)


class TaskMetrics:
    """All metrics of the functions of one operator in one task."""

    def __init__(self, operator: str) -> None:
        self._operator = operator
        # By the labels of a scrape, which joins the names of groups by dots, and by name.
        self._metrics: dict[tuple[str, str], tuple[tuple[str, ...], Metric]] = {}

    def registered(
        self, groups: tuple[str, ...], name: str, kind: type[_Metric], metric: _Metric
    ) -> _Metric:
        """The metric of this name, `metric` at the first request.

        Raises InvalidRequestError for a name of another kind, LimitExceededError beyond
        `MOST_METRICS`.
        """
        shown = ".".join((*groups, name))
        labels = (".".join(groups), name)
        _, found = self._metrics.get(labels, (groups, metric))
        if not isinstance(found, kind):
            raise InvalidRequestError(
                f"operator {self._operator!r}: metric {shown!r} is a {type(found).__name__} and "
                f"a {kind.__name__}: rename one"
            )
        if not name or len(shown) > MOST_NAME_CHARACTERS:
            raise InvalidRequestError(
                f"operator {self._operator!r}: the name of metric {shown!r} has {len(shown)} "
                f"characters with its groups: give it 1 to {MOST_NAME_CHARACTERS}"
            )
        if found is metric and len(self._metrics) >= MOST_METRICS:
            raise LimitExceededError(
                f"operator {self._operator!r}: metric {shown!r} is one too many: an operator may "
                f"have {MOST_METRICS}; do not name metrics after keys"
            )
        self._metrics.setdefault(labels, (groups, metric))
        return found

    def reported(self) -> Iterator[UserMetric]:
        """What each metric counted in the batch; JobError if a gauge raises."""
        for (_, name), (groups, metric) in self._metrics.items():
            try:
                reported = metric.reported()
            except Exception as problem:
                raise JobError(
                    f"operator {self._operator!r}: gauge {'.'.join((*groups, name))!r} did not "
                    f"return a number: {type(problem).__name__}: {problem}",
                    reason=Reason.USER_FUNCTION_FAILED,
                ) from problem
            reported.groups.extend(groups)
            reported.name = name
            yield reported


class MetricGroup:
    """Metrics with common outer names. The same name gives the same metric."""

    def __init__(self, metrics: TaskMetrics, groups: tuple[str, ...] = ()) -> None:
        self._metrics = metrics
        self._groups = groups

    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """The group `name` in this one; with `extra` the group `extra` in it."""
        more = (name,) if extra is None else (name, extra)
        return MetricGroup(self._metrics, (*self._groups, *more))

    def counter(self, name: str) -> Counter:
        """A counter."""
        return self._metrics.registered(self._groups, name, Counter, Counter())

    def gauge(self, name: str, obj: Callable[[], float]) -> None:
        """Reads `obj()` at the end of each batch, in the task."""
        if not callable(obj):
            raise InvalidRequestError(f"gauge {name!r}: expected a function, not {obj!r}")
        self._metrics.registered(self._groups, name, Gauge, Gauge(obj))

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """A meter. The time span has no effect: the query of Prometheus chooses it."""
        return self._metrics.registered(self._groups, name, Meter, Meter())

    def distribution(self, name: str) -> Distribution:
        """A distribution."""
        return self._metrics.registered(self._groups, name, Distribution, Distribution())
