"""What durable state costs and how fast it comes back: `python -m benchmarks.recovery`."""
