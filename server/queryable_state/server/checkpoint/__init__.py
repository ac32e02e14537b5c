"""Durable state: where files are kept, in which layout and formats, and what a job's root holds."""
