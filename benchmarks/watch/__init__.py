"""Latency of watches from a commit to the change, and what 1,000 of them cost a busy job.

`python -m benchmarks.watch`.
"""
