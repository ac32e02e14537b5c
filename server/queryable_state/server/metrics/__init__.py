"""Prometheus metrics of one process: counters, collectors and the port that serves them."""
