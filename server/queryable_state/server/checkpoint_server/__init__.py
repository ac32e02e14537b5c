"""Server that answers queries from a checkpoint or savepoint, without the job."""
