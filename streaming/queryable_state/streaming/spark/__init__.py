"""Spark integration; the only package that uses Spark internals."""
