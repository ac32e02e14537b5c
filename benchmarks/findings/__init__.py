"""Time until faults of a real job are named, and over: `python -m benchmarks.findings`."""
