"""Time to an answer, from a row's arrival and from a timer's time.

`python -m benchmarks.latency.freshness`, `python -m benchmarks.latency.timers`.
"""
