"""A thousand state servers against one coordinator: `python -m benchmarks.capacity.simulation`."""
