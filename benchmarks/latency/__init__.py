"""Time to an answer, from a row's arrival, from a timer's time, and from a record of Kafka.

`python -m benchmarks.latency.freshness`, `python -m benchmarks.latency.timers`,
`python -m benchmarks.latency.kafka`.
"""
