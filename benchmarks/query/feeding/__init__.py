"""The feeder process and the peers it can write to."""
