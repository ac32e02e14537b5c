"""Files that a program adds: modules, folders, archives and cached files in functions."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import SparkFiles
from tests.spark.functions import READINGS

from queryable_state.streaming import Configuration
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.spark.conftest import MakeFeed

    from queryable_state.streaming import StreamExecutionEnvironment


def in_a_worker(spark: SparkSession, function: Callable[[], Any]) -> Any:
    return spark.sparkContext.parallelize([0], 1).map(lambda _: function()).collect()[0]


def test_modules_folders_and_zip_files_are_importable(
    env: StreamExecutionEnvironment, spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "added_module.py").write_text("value = 1\n")
    folder = tmp_path / "folder"
    (folder / "added_package").mkdir(parents=True)
    (folder / "added_package" / "__init__.py").write_text("value = 2\n")
    zipped = tmp_path / "zipped"
    zipped.mkdir()
    (zipped / "added_by_zip.py").write_text("value = 3\n")
    archive = shutil.make_archive(str(tmp_path / "library"), "zip", zipped)
    env.add_python_file(str(tmp_path / "added_module.py"))
    env.add_python_file(str(folder))
    env.configure(Configuration().set_string("python.files", archive))

    def values() -> list[int]:
        import added_by_zip  # type: ignore[import-not-found]
        import added_module  # type: ignore[import-not-found]
        import added_package  # type: ignore[import-not-found]

        return [added_module.value, added_package.value, added_by_zip.value]

    assert in_a_worker(spark, values) == [1, 2, 3]


def test_archives_and_cached_files_are_found_by_name(
    env: StreamExecutionEnvironment, spark: SparkSession, tmp_path: Path
) -> None:
    content = tmp_path / "content"
    content.mkdir()
    (content / "data.txt").write_text("42")
    archive = shutil.make_archive(str(tmp_path / "archive"), "zip", content)
    env.add_python_archive(archive, "unpacked")
    script = tmp_path / "script.sh"
    script.write_text("#!/bin/sh\n")
    env.register_cached_file(script.as_uri(), "tool", executable=True)

    def read() -> tuple[str, bool]:
        with open(SparkFiles.get("unpacked") + "/data.txt") as data:  # noqa: PTH123
            return data.read(), os.access(SparkFiles.get("tool"), os.X_OK)

    assert in_a_worker(spark, read) == ("42", True)


def test_the_python_of_the_workers_is_set(
    env: StreamExecutionEnvironment,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", spark.sparkContext.pythonExec)
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nADDED_PYTHON=yes exec "{sys.executable}" "$@"\n')
    wrapper.chmod(0o755)
    env.set_python_executable(str(wrapper))
    assert in_a_worker(spark, lambda: os.environ.get("ADDED_PYTHON")) == "yes"


@pytest.mark.parametrize(
    ("add", "text"),
    [
        (lambda env: env.add_python_file("/no/such.py"), "does not exist"),
        (lambda env: env.add_python_file("/data.txt"), "Python cannot import"),
        (lambda env: env.add_python_archive("/no/such.zip"), "does not exist"),
        (lambda env: env.register_cached_file("/no/such", "x"), "does not exist"),
        (lambda env: env.register_cached_file("/tmp", "x"), "add_python_archive"),
        (lambda env: env.register_cached_file("/x", "a/b"), "slash"),
        (lambda env: env.register_cached_file("s3://b/x", "y"), "download it first"),
        (lambda env: env.add_jars("it's.jar"), "contains a quote"),
    ],
)
def test_a_file_that_cannot_be_added_is_refused(
    env: StreamExecutionEnvironment,
    add: Callable[[StreamExecutionEnvironment], None],
    text: str,
) -> None:
    with pytest.raises(InvalidRequestError, match=text):
        add(env)


@pytest.mark.slow
def test_a_module_that_workers_do_not_have_is_named_with_the_way_to_add_it(
    env: StreamExecutionEnvironment,
    feed: MakeFeed,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    functions = "def is_warm(row): return True\ndef newer(one, other): return other\n"
    (tmp_path / "only_in_driver.py").write_text(functions)
    monkeypatch.syspath_prepend(tmp_path)
    only_in_driver = importlib.import_module("only_in_driver")
    source = feed(READINGS)
    source.add({"sensor": "a", "temperature": 1.0})
    stream = env.from_dataframe(source.dataframe())
    stream.filter(only_in_driver.is_warm).print()
    in_batches = env.execute_async("chain")
    stream.key_by("sensor").reduce(only_in_driver.newer).uid("newest")
    in_plan = env.execute_async("operator")
    for job in (in_batches, in_plan):
        with pytest.raises(InvalidRequestError) as raised:
            job.process_all_available()
        assert "ModuleNotFoundError: No module named 'only_in_driver'" in str(raised.value)
        assert "env.add_python_file" in str(raised.value)
        assert "\n" not in str(raised.value)
