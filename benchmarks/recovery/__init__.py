"""Cost of durable state and time of its restore: `python -m benchmarks.recovery`."""
