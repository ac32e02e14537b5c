"""One coordinator of a thousand simulated servers: `python -m benchmarks.capacity.simulation`."""
