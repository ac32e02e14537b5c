"""Queries a second, ours beside redis: `python -m benchmarks.query`."""
