"""Answers queries from a checkpoint or savepoint of a job that does not run."""
