"""Pictures of the figures of a run: `python -m benchmarks.plots FILE ...`."""
