"""What the system does a second, beside its peers in the same run: see docs/performance.md."""
