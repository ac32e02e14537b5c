"""Everything of a stateful operator that runs inside a Spark task; knows nothing of Spark."""
