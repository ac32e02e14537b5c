"""Runtime of stateful operators inside a Spark task; it does not import Spark."""
