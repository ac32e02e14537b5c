"""A job and its queries at once, ours and Redis: `python -m benchmarks.mixed`."""
