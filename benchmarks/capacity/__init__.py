"""What many keys, and many servers, cost: `python -m benchmarks.capacity`."""
