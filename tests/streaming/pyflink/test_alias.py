"""`import pyflink`, as an alias of this library."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import TYPE_CHECKING

import pytest

import queryable_state.streaming as ours
from queryable_state.streaming.compat import install_pyflink_alias
from queryable_state.streaming.compat.pyflink_alias import PyFlinkFinder
from queryable_state.streaming.compat.pyflink_names import MODULES
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def clean() -> Iterator[None]:
    """Removes the alias before and after the test."""

    def remove() -> None:
        sys.meta_path[:] = [
            finder for finder in sys.meta_path if not isinstance(finder, PyFlinkFinder)
        ]
        for name in [name for name in sys.modules if name.partition(".")[0] == "pyflink"]:
            del sys.modules[name]

    remove()
    yield
    remove()


@pytest.fixture
def alias(clean: None) -> None:
    install_pyflink_alias()


pytestmark = pytest.mark.usefixtures("clean")


def test_without_the_call_there_is_no_alias() -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("pyflink.common")


@pytest.mark.usefixtures("alias")
@pytest.mark.parametrize("module", MODULES)
def test_each_module_has_the_names_that_we_have(module: str) -> None:
    found = importlib.import_module(module)
    for name in MODULES[module]:
        if name in ours.__all__:
            assert getattr(found, name) is getattr(ours, name)
            assert name in found.__all__
        else:
            with pytest.raises(ImportError, match=f"{name} is missing"):
                getattr(found, name)


@pytest.mark.usefixtures("alias")
def test_names_are_imported_as_from_pyflink() -> None:
    namespace: dict[str, object] = {}
    exec(
        "from pyflink.datastream import StreamExecutionEnvironment, CheckpointingMode\n"
        "from pyflink.datastream.state import ValueStateDescriptor\n"
        "from pyflink.common.typeinfo import Types, TypeInformation\n"
        "import pyflink.datastream.functions as functions\n"
        "process = functions.KeyedProcessFunction\n",
        namespace,
    )
    assert namespace["StreamExecutionEnvironment"] is ours.StreamExecutionEnvironment
    assert namespace["TypeInformation"] is ours.TypeInformation
    assert namespace["process"] is ours.KeyedProcessFunction


@pytest.mark.usefixtures("alias")
@pytest.mark.parametrize(
    ("module", "parameterised"),
    [
        ("functions", "BroadcastProcessFunction[int, str, str]"),
        ("functions", "KeyedBroadcastProcessFunction[str, int, str, str]"),
        ("functions", "ProcessWindowFunction[tuple, tuple, str, object]"),
        ("window", "Trigger[tuple, TimeWindow]"),
        ("window", "CountTrigger[tuple]"),
        ("window", "PurgingTrigger[tuple]"),
    ],
)
def test_classes_have_the_type_parameters_of_pyflink(module: str, parameterised: str) -> None:
    name = parameterised.partition("[")[0]
    exec(
        f"from pyflink.datastream.{module} import {name}\n"
        "from pyflink.datastream.window import TimeWindow\n"
        f"class Own({parameterised}): pass\n",
        {},
    )


@pytest.mark.usefixtures("alias")
def test_contexts_are_named_as_in_pyflink() -> None:
    functions = importlib.import_module("pyflink.datastream.functions")
    base = functions.BaseBroadcastProcessFunction
    for function in (functions.BroadcastProcessFunction, functions.KeyedBroadcastProcessFunction):
        assert issubclass(function.Context, base.Context)
        assert issubclass(function.ReadOnlyContext, base.ReadOnlyContext)
        assert issubclass(function.Context, base.BaseContext)


@pytest.mark.usefixtures("alias")
def test_a_missing_name_says_why_and_what_to_use() -> None:
    with pytest.raises(ImportError, match=r"CachedDataStream is missing.*own sources"):
        exec("from pyflink.datastream.data_stream import CachedDataStream", {})
    with pytest.raises(ModuleNotFoundError, match=r"no Table API: use Spark SQL"):
        importlib.import_module("pyflink.table")
    with pytest.raises(ModuleNotFoundError, match=r"Spark's sources and sinks"):
        importlib.import_module("pyflink.datastream.connectors.kafka")
    with pytest.raises(ModuleNotFoundError, match=r"docs/pyflink\.md"):
        importlib.import_module("pyflink.nothing")


@pytest.mark.usefixtures("alias")
def test_a_name_that_pyflink_lacks_is_an_attribute_error() -> None:
    found = importlib.import_module("pyflink.common")
    assert not hasattr(found, "no_such_name")


@pytest.mark.usefixtures("alias")
def test_a_second_call_changes_nothing() -> None:
    install_pyflink_alias()
    assert sum(isinstance(finder, PyFlinkFinder) for finder in sys.meta_path) == 1


def test_it_is_refused_where_pyflink_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyflink").mkdir()
    (tmp_path / "pyflink" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert importlib.util.find_spec("pyflink") is not None
    with pytest.raises(InvalidRequestError, match="uninstall apache-flink"):
        install_pyflink_alias()
