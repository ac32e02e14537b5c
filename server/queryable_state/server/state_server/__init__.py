"""The process that holds state: one per executor, no user code inside."""
