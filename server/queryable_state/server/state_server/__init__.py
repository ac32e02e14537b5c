"""The state server: one process per executor that holds state and runs no user code."""
