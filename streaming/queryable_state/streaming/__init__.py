"""Keyed state of PySpark streaming jobs that can be queried while they run.

A program creates a `StreamExecutionEnvironment`, keys a stream and processes it. The
`set_queryable` method of a descriptor makes a state visible to `queryable_state.client`.

The first use of a public name imports them all. Spark starts Python processes for each query, which
import only the modules that they run.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from queryable_state.wire.packaging.extras import require_extra

require_extra("streaming", "queryable_state.streaming")

if TYPE_CHECKING:
    from queryable_state.streaming.api import *  # noqa: F403 - its `__all__` is this one's
    from queryable_state.streaming.api import __all__ as __all__
    from queryable_state.streaming.api import __version__ as __version__
    from queryable_state.streaming.stateless.metrics import *  # noqa: F403 - as for `windows`
    from queryable_state.streaming.windows import *  # noqa: F403 - mypy does not see that part
else:

    def __getattr__(name: str) -> Any:
        if name.startswith("__") and name not in ("__all__", "__version__"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        # `from queryable_state.streaming import api` would ask for the attribute first.
        return getattr(import_module("queryable_state.streaming.api"), name)

    def __dir__() -> list[str]:
        return [*globals(), *__getattr__("__all__")]
