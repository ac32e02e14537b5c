"""The workloads and the variants that run them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from benchmarks.streaming.dataset import Dataset, LimitsDataset, TimedDataset
from benchmarks.streaming.windows.dataset import WindowsDataset

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Variant:
    """One row of the table."""

    name: str
    """The name in `benchmarks.streaming.variant`."""
    title: str
    """The name in tables and pictures."""
    share: float
    """Share of the batches that it runs: slow variants would take minutes."""
    columns: tuple[str, ...]
    """The columns of the dataset in its state."""

    def batches(self, whole: int) -> int:
        """The number of its batches, of which at least half are warm."""
        return min(whole, max(int(whole * self.share), 4))


ALL = Dataset.columns
LIMITS = LimitsDataset.columns
TIMED = TimedDataset.columns
WINDOWED = WindowsDataset.columns
VARIANTS = (
    Variant("native", "Spark groupBy().agg: count, sum, max", 1.0, ALL),
    Variant("native-sums", "Spark groupBy().agg: two sums", 1.0, ALL[:2]),
    Variant("sums", "ours, built-in: two sums (vectorised)", 1.0, ALL[:2]),
    Variant("latest", "ours, queryable sink: the last row (vectorised)", 1.0, ()),
    Variant("latest-by", "ours, queryable sink: the row of the greatest value", 1.0, ("maxima",)),
    Variant("process-state", "ours, Python function, no output row", 1.0, ALL),
    Variant("process-ordered", "ours, the same with `order_by`", 1.0, ALL),
    Variant("process-row", "ours, Python function, a row for each row", 1.0, ALL),
    Variant("process-ttl", "ours, the same with a TTL", 1.0, ALL),
    Variant("process-batch", "ours, Arrow function, a row for each key", 1.0, ALL),
    Variant("process-batch-row", "ours, Arrow function, a row for each row", 1.0, ALL),
    Variant("tws-row", "Spark transformWithState, rows", 0.2, ALL),
    Variant("tws-pandas", "Spark transformWithStateInPandas", 0.1, ALL),
    Variant("native-union", "Spark union().groupBy().agg: two sums", 1.0, ALL[:2]),
    Variant("union", "ours, union, then two sums (vectorised)", 1.0, ALL[:2]),
    Variant("tws-connect", "Spark transformWithState, rows of a tagged union", 0.2, LIMITS),
    Variant("connect", "ours, connect, Python function for both streams", 1.0, LIMITS),
    Variant("native-tumbling", "Spark groupBy(key, window).agg", 1.0, WINDOWED[:3]),
    Variant("tumbling", "ours, tumbling windows (vectorised)", 1.0, WINDOWED[:3]),
    Variant("native-sliding", "Spark groupBy(key, sliding window).agg", 1.0, WINDOWED[3:]),
    Variant("sliding", "ours, sliding windows of 4 slides (vectorised)", 1.0, WINDOWED[3:]),
    Variant("tws-timers", "Spark transformWithState, a timer of each key moved", 0.2, TIMED),
    Variant("process-newest", "ours, Python function, a row for each row", 1.0, TIMED),
    Variant("process-timers", "ours, the same with a timer moved by each row", 1.0, TIMED),
)
REFERENCES = (
    "native-sums",
    "native",
    "tws-row",
    "tws-pandas",
    "process-row",
    "native-union",
    "tws-connect",
    "native-tumbling",
    "native-sliding",
    "tws-timers",
    "process-newest",
)
"""The variants that the others are compared with."""


UNION = ("native-union", "union")
CONNECT = ("tws-connect", "connect")
WINDOWS = ("native-tumbling", "tumbling", "native-sliding", "sliding")
TIMERS = ("tws-timers", "process-newest", "process-timers")


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A number of rows and keys, in batches of equal size."""

    name: str
    rows: int
    rows_per_batch: int
    keys: int
    warm_up: int
    """Batches of a run that are not counted; at most half of a variant's batches."""
    variants: tuple[str, ...]
    checkpoint_interval_ms: int = 0
    """Interval of our snapshots; 0: changelogs only. Spark's store keeps its own schedule."""

    @property
    def batches(self) -> int:
        """The number of batches."""
        return -(-self.rows // self.rows_per_batch)

    def dataset(self, folder: Path) -> Dataset:
        """Its rows, not written yet."""
        kinds: dict[tuple[str, ...], type[Dataset]] = {
            CONNECT: LimitsDataset,
            TIMERS: TimedDataset,
            WINDOWS: WindowsDataset,
        }
        kind = kinds.get(self.variants, Dataset)
        return kind(
            folder,
            batches=self.batches,
            rows_per_batch=self.rows_per_batch,
            keys=self.keys,
        )

    def quick(self) -> Workload:
        """A tenth of the rows, in smaller batches."""
        batch = self.rows_per_batch // 4
        rows = max(self.rows // 10, 5 * batch)
        keys = rows if self.keys == self.rows else self.keys
        return replace(self, rows=rows, rows_per_batch=batch, keys=keys, warm_up=3)


WORKLOADS = (
    Workload(
        name="keys",
        rows=8_000_000,
        rows_per_batch=200_000,
        keys=10_000,
        warm_up=15,
        variants=tuple(
            variant.name
            for variant in VARIANTS
            if variant.name not in (*UNION, *CONNECT, *TIMERS, *WINDOWS)
        ),
    ),
    Workload(
        name="distinct",
        rows=1_000_000,
        rows_per_batch=50_000,
        keys=1_000_000,
        warm_up=8,
        variants=("native-sums", "sums"),
        checkpoint_interval_ms=5_000,
    ),
    Workload(
        name="union",
        rows=8_000_000,
        rows_per_batch=200_000,
        keys=10_000,
        warm_up=15,
        variants=UNION,
    ),
    Workload(
        name="connect",
        rows=8_000_000,
        rows_per_batch=200_000,
        keys=10_000,
        warm_up=15,
        variants=CONNECT,
    ),
    Workload(
        name="windows",
        rows=10_000_000,
        rows_per_batch=200_000,
        keys=10_000,
        # Windows end from batch 27 on.
        warm_up=28,
        variants=WINDOWS,
    ),
    Workload(
        name="timers",
        rows=8_000_000,
        rows_per_batch=200_000,
        keys=10_000,
        warm_up=15,
        variants=TIMERS,
    ),
)
