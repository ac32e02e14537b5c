"""A streaming job under look-ups, beside one that writes to Redis: `python -m benchmarks.mixed`."""
