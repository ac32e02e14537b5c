"""Figures of a run as pictures: `python -m benchmarks.plots FILE ...`."""
