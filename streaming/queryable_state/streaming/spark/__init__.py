"""Where the operators meet Spark: the only package that knows its internals."""
