"""Memory and latency of many keys, and one coordinator of many servers."""
