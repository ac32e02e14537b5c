"""State that Spark keeps itself: look-ups beside our own state and Spark's reader; following."""
