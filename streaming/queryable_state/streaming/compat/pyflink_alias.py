"""Import hook under which `pyflink.common` and `pyflink.datastream` are this library.

A name of PyFlink that `queryable_state.streaming` has is importable from PyFlink's module. A name
or module that is missing raises ImportError with the reason.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any, Final

import queryable_state.streaming as ours
from queryable_state.streaming.compat.pyflink_names import MODULES, PACKAGES
from queryable_state.wire.errors import InvalidRequestError, Reason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType


_SPARK_SQL = "use Spark SQL, and from_dataframe for its result"

MISSING_MODULES: Final[Mapping[str, str]] = {
    "pyflink.table": f"there is no Table API: {_SPARK_SQL}",
    "pyflink.dataset": f"there is no DataSet API: {_SPARK_SQL}",
    "pyflink.datastream.connectors": (
        "there are no connectors of Flink: read and write with Spark's sources and sinks, and pass "
        "a streaming DataFrame to from_dataframe"
    ),
    "pyflink.datastream.formats": (
        "there are no formats of Flink: read and write with Spark's sources and sinks"
    ),
    "pyflink.java_gateway": "there is no JVM of Flink: the program runs on a SparkSession",
    "pyflink.util": "the module belongs to Flink's JVM gateway",
    "pyflink.fn_execution": "Spark runs the Python workers",
    "pyflink.testing": "use queryable_state.streaming.testing",
    "pyflink.shell": "use pyspark, and create a StreamExecutionEnvironment on its session",
}
"""Why a module and its submodules are missing."""

MISSING_NAMES: Final[Mapping[str, str]] = {
    "AssignerWithPeriodicWatermarksWrapper": (
        "it wraps an assigner of Flink's JVM: use WatermarkStrategy.with_timestamp_assigner"
    ),
    "CustomCheckpointStorage": "it wraps a storage of Flink's JVM",
    "SourceFunction": "it wraps a source of Flink's JVM: read with from_source(SparkSource(...))",
    "SinkFunction": (
        "it wraps a sink of Flink's JVM: pass a function of a DataFrame and a batch id to "
        "add_sink, or write with a SparkSink"
    ),
    "CachedDataStream": "each job reads its own sources",
    "ConfigOption": "a Configuration is read and written by key",
    "ConfigOptions": "a Configuration is read and written by key",
    "Encoder": "write with Spark's sinks",
    "BulkWriterFactory": "write with Spark's sinks",
    "SerializationSchema": "write with Spark's sinks",
    "DeserializationSchema": "read with Spark's sources",
    "SimpleStringSchema": "read and write with Spark's text sources and sinks",
}
"""Why a name is missing, and what to use."""


_PAGE = "docs/pyflink.md lists PyFlink's names"


def install_pyflink_alias() -> None:
    """Makes `import pyflink.datastream` import this library, in this process. Idempotent.

    A function that imports `pyflink` in its body needs this call in the Python workers too: make
    it in the module of the function. Raises InvalidRequestError if PyFlink itself is installed.
    """
    if any(isinstance(finder, PyFlinkFinder) for finder in sys.meta_path):
        return
    if "pyflink" in sys.modules or importlib.util.find_spec("pyflink") is not None:
        raise InvalidRequestError(
            "install_pyflink_alias: PyFlink itself is installed in this Python, so the name "
            "`pyflink` would stand for two libraries: uninstall apache-flink, or import from "
            "queryable_state.streaming",
            reason=Reason.UNSUPPORTED,
        )
    sys.meta_path.insert(0, PyFlinkFinder())


class PyFlinkFinder(MetaPathFinder, Loader):
    """Finder and loader of the modules of the alias."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != "pyflink":
            return None
        if fullname not in MODULES and fullname not in PACKAGES:
            raise ModuleNotFoundError(
                f"{fullname} is missing in queryable_state.streaming: {_reason(fullname)}",
                name=fullname,
            )
        return ModuleSpec(fullname, self, is_package=fullname in PACKAGES)

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        module.__doc__ = f"PyFlink's {name} as an alias of queryable_state.streaming."
        names = MODULES.get(name, ())
        found = [each for each in names if exists(each)]
        vars(module).update({each: named(each) for each in found})
        vars(module)["__all__"] = found

        def missing(attribute: str) -> Any:
            if attribute not in names:
                raise AttributeError(f"module {name!r} has no attribute {attribute!r}")
            reason = MISSING_NAMES.get(attribute, _PAGE)
            raise ImportError(
                f"{name}.{attribute} is missing in queryable_state.streaming: {reason}", name=name
            )

        vars(module)["__getattr__"] = missing


def exists(name: str) -> bool:
    """True if this library has a name of PyFlink."""
    return name in ours.__all__


def named(name: str) -> Any:
    """The object of this library for a name of PyFlink."""
    return getattr(ours, name)


def _reason(module: str) -> str:
    for missing, reason in MISSING_MODULES.items():
        if module == missing or module.startswith(f"{missing}."):
            return reason
    return _PAGE
