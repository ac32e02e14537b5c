"""Files that a program adds to the Spark application: modules, archives, jars, cached files."""

from __future__ import annotations

import atexit
import shutil
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from queryable_state.wire.errors import InvalidRequestError, Reason

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from pyspark.sql import SparkSession

_MODULES = (".py", ".zip", ".egg", ".jar")


class ProgramFiles:
    """The methods of an environment that add files. A file is added to the SparkContext, so all
    jobs of the application see it."""

    _spark: SparkSession

    def add_python_file(self, file_path: str) -> None:
        """Makes a module, a package folder or a zip file importable in functions.

        The modules of a folder are imported by their names below the folder, as if the folder were
        on PYTHONPATH.
        """
        path = _local(file_path)
        if path is not None and path.is_dir():
            archive = shutil.make_archive(str(_served_folder() / path.name), "zip", path)
            self._spark.sparkContext.addPyFile(archive)
            return
        if not file_path.endswith(_MODULES):
            raise InvalidRequestError(
                f"add_python_file: {file_path} is not a folder and does not end with one of "
                f"{', '.join(_MODULES)}, so Python cannot import from it"
            )
        _require(path, file_path, "add_python_file")
        self._spark.sparkContext.addPyFile(file_path)

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Unpacks an archive on each executor, into `SparkFiles.get(target_dir)`.

        By default `target_dir` is the name of the archive.
        """
        _require(_local(archive_path), archive_path, "add_python_archive")
        self._spark.sparkContext.addArchive(
            f"{archive_path}#{target_dir}" if target_dir else archive_path
        )

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> None:
        """Copies a file to each executor, as `SparkFiles.get(name)`."""
        if not name or "/" in name:
            raise InvalidRequestError(
                f"register_cached_file: the name of a cached file must not be empty or contain a "
                f"slash, and {name!r} does"
            )
        path = _local(file_path)
        context = self._spark.sparkContext
        if path is None:
            if executable or not file_path.endswith(f"/{name}"):
                raise InvalidRequestError(
                    f"register_cached_file: {file_path} is not a local file, so the name must be "
                    "the last part of its URI and executable must be False: download it first",
                    reason=Reason.UNSUPPORTED,
                )
            context.addFile(file_path)
            return
        _require(path, file_path, "register_cached_file")
        if path.is_dir():
            raise InvalidRequestError(
                f"register_cached_file: {file_path} is a folder: add it as an archive with "
                "add_python_archive",
                reason=Reason.UNSUPPORTED,
            )
        copy = _served_folder() / name
        shutil.copy(path, copy)
        if executable:
            copy.chmod(copy.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP)
        context.addFile(str(copy))

    def set_python_executable(self, python_exec: str) -> None:
        """Sets the Python of Spark's workers, for jobs and functions that start later.

        Every executor needs it at this path, with the driver's version and packages.
        """
        if not python_exec:
            raise InvalidRequestError("set_python_executable: the path of the Python is empty")
        self._spark.sparkContext.pythonExec = python_exec

    def set_python_requirements(
        self, requirements_file_path: str, requirements_cache_dir: str | None = None
    ) -> None:
        """Refused: Spark does not install packages on executors."""
        raise InvalidRequestError(
            f"set_python_requirements({requirements_file_path!r}): Spark does not install packages "
            "on executors. Install them in the Python that the executors run, ship a packed "
            "environment with spark.archives and set_python_executable, or add pure Python modules "
            "with add_python_file",
            reason=Reason.UNSUPPORTED,
        )

    def add_jars(self, *jars_path: str) -> None:
        """Adds jars to the class path of the Spark session and its executors."""
        for jar in jars_path:
            if "'" in jar:
                raise InvalidRequestError(f"add_jars: the path {jar!r} contains a quote")
            _require(_local(jar), jar, "add_jars")
        for jar in jars_path:
            self._spark.sql(f"ADD JAR '{jar}'")

    def add_classpaths(self, *classpaths: str) -> None:
        """Refused: the class path of a running JVM is fixed."""
        raise InvalidRequestError(
            f"add_classpaths({', '.join(map(repr, classpaths))}): the class path of a running JVM "
            "is fixed. Set spark.driver.extraClassPath and spark.executor.extraClassPath before "
            "Spark starts, or ship jars with add_jars",
            reason=Reason.UNSUPPORTED,
        )

    def _add_files(self, options: Mapping[str, Any]) -> None:
        """Adds the files, archives and jars that Flink's options name."""
        if options.get("python.requirements"):
            self.set_python_requirements(options["python.requirements"])
        if options.get("pipeline.classpaths"):
            self.add_classpaths(*options["pipeline.classpaths"])
        self.add_jars(*options.get("pipeline.jars", ()))
        for file in options.get("python.files", ()):
            self.add_python_file(file)
        for archive in options.get("python.archives", ()):
            path, _, target = archive.partition("#")
            self.add_python_archive(path, target or None)
        if options.get("python.executable"):
            self.set_python_executable(options["python.executable"])


def _served_folder() -> Path:
    """A new folder that lasts as long as the driver: executors fetch its files at any time."""
    folder = tempfile.mkdtemp(prefix="queryable-state-files-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _local(path: str) -> Path | None:
    """The local path of a path or a `file:` URI; None if the file is not local."""
    scheme = urlsplit(path).scheme
    if scheme == "file":
        return Path(urlsplit(path).path)
    return None if scheme else Path(path)


def _require(path: Path | None, given: str, method: str) -> None:
    if path is not None and not path.exists():
        raise InvalidRequestError(f"{method}: {given} does not exist on the driver")
