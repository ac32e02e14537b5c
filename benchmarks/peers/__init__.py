"""The peers' own programs: redis-server, Flink in Java, the unary client in Go."""
