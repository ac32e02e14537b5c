"""The windowed workload: rows with times, and count, sum and maximum by key and window."""
