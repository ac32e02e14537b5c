"""Throughput of keyed aggregations, ours and Spark's: `python -m benchmarks.streaming`."""
