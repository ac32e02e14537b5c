"""Rows a second of keyed aggregations, ours and Spark's: `python -m benchmarks.streaming`."""
