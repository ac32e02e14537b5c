"""Id of the query of a Spark checkpoint."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING

from queryable_state.wire.errors import CorruptDataError

if TYPE_CHECKING:
    from queryable_state.streaming.spark.savepoints.spark_files import SparkFiles

_METADATA = "metadata"


def stored_query_id(location: SparkFiles) -> uuid.UUID | None:
    """The id; None if the checkpoint has none yet. Raises CorruptDataError if it is damaged."""
    content = location.read(_METADATA)
    if content is None:
        return None
    try:
        return uuid.UUID(json.loads(content)["id"])
    except (ValueError, KeyError, TypeError) as problem:
        raise CorruptDataError(
            f"{location.root}/{_METADATA} contains no query id in Spark's format: {problem!r}"
        ) from problem
