"""Ends of event time: the watermarks before the first and after the last element of a job.

On the wire 0 stands for no watermark, because Spark's watermark starts there.
"""

from __future__ import annotations

from typing import Final

NO_WATERMARK: Final = -(2**63)
"""The watermark that functions see while there is none, as in Flink."""
END_OF_TIME: Final = 2**63 - 1
"""The watermark at the end of bounded input, as in Flink."""
NO_TIMESTAMP: Final = -(2**63)
"""The timestamp of an element that has none, as a `TimestampAssigner` receives it."""
