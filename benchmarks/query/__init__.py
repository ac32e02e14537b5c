"""Look-ups a second beside Flink, redis-py and valkey-glide: `python -m benchmarks.query`."""
