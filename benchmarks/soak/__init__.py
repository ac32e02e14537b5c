"""Everything at once for two minutes: `python -m benchmarks.soak`."""
