"""The clients under test, each with the load generator that drives it."""
