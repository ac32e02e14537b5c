"""Tables and JSON of `python -m benchmarks.capacity`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from benchmarks.figures import table, thousands

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.capacity.measuring import Row


def report(rows: Sequence[Row]) -> str:
    """The tables."""
    parts = [
        "Memory of the state server; B/key is memory beyond that of an empty server:\n",
        table(
            [
                "backend",
                "keys",
                "raw B/key",
                "RSS",
                "RSS after look-ups",
                "peak RSS",
                "RSS beyond the block cache",
                "B/key",
                "overhead/key",
                "disk",
                "keys loaded/s",
            ],
            [
                [
                    row.backend,
                    f"{row.keys:,}",
                    f"{row.raw_bytes_per_key:.0f}",
                    _mebi(row.rss_bytes),
                    _mebi(row.warm_rss_bytes),
                    _mebi(row.peak_rss_bytes),
                    _mebi(row.beyond_cache_bytes),
                    f"{row.bytes_per_key:.0f}",
                    f"{row.overhead_per_key:.0f}",
                    _mebi(row.disk_bytes),
                    thousands(row.load_keys_per_s),
                ]
                for row in rows
            ],
        ),
        "\nLook-ups of random keys, p50 / p99 in us, by look-ups in flight:\n",
        table(
            ["backend", "keys", "hit, 1", "miss, 1", "hit, 64", "miss, 64", "hits/s, 64"],
            [
                [
                    row.backend,
                    f"{row.keys:,}",
                    *(
                        f"{sample.p50_us:.0f}/{sample.p99_us:.0f}"
                        for sample in (
                            row.of(1, found=True).sample,
                            row.of(1, found=False).sample,
                            row.of(64, found=True).sample,
                            row.of(64, found=False).sample,
                        )
                    ),
                    thousands(row.of(64, found=True).sample.per_second),
                ]
                for row in rows
            ],
        ),
    ]
    big = [
        [
            row.backend,
            f"{row.keys:,}",
            f"{row.big_batch.seconds:.1f}",
            _mebi(row.warm_rss_bytes),
            _mebi(row.big_batch.peak_rss_bytes),
            _mebi(row.big_batch.rss_bytes),
            f"{row.big_batch.lookups.sample.p50_us:.0f}",
            f"{row.big_batch.lookups.sample.p99_us:.0f}",
        ]
        for row in rows
        if row.big_batch
    ]
    if big:
        parts += [
            "\nOne batch that rewrites every key, and the latency of single look-ups in us:\n",
            table(["backend", "keys", "s", "RSS", "peak RSS", "RSS after", "p50", "p99"], big),
        ]
    return "\n".join(parts)


def to_json(rows: Sequence[Row]) -> list[dict[str, object]]:
    """One flat object per row; `p50_us` and `p99_us` are of hits with one in flight."""
    return [
        {
            **asdict(row),
            "bytes_per_key": row.bytes_per_key,
            "overhead_per_key": row.overhead_per_key,
            "beyond_cache_bytes": row.beyond_cache_bytes,
            "p50_us": row.of(1, found=True).sample.p50_us,
            "p99_us": row.of(1, found=True).sample.p99_us,
        }
        for row in rows
    ]


def _mebi(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:.0f} MiB"
