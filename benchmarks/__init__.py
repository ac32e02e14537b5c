"""Benchmarks of queries, streaming, recovery and capacity: see docs/performance.md."""
