"""File access below one folder, on the local disk or through Hadoop file systems."""

from __future__ import annotations

import re
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError

from queryable_state.wire.errors import CheckpointError, RetryLaterError

if TYPE_CHECKING:
    from pyspark import SparkContext


_S3A: Final = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_MISSING: Final = (
    "No FileSystem for scheme",
    "ClassNotFoundException",
    "NoClassDefFoundError",
)


def folder_error(path: str, java_message: str, hadoop_version: str) -> CheckpointError:
    """The error for a folder that Spark cannot access.

    If the file system's classes or their setting are missing, it names both. `java_message` is the
    text of the Java exception, `hadoop_version` the version of Spark's Hadoop.
    """
    first = java_message.partition("\n")[0]
    what = f"Spark cannot access the folder {path!r}: {first}"
    if not any(each in java_message for each in _MISSING):
        return CheckpointError(what)
    found = re.match(r"([a-z0-9+.-]+):", path, re.IGNORECASE)
    scheme = found[1].lower() if found else ""
    if scheme not in ("s3", "s3a", "s3n"):
        return CheckpointError(
            f"{what}. Spark writes its own checkpoint there through Hadoop: add the Hadoop file "
            f"system of the scheme {scheme!r} to the classes of driver and executors "
            f"(spark.jars.packages), and set spark.hadoop.fs.{scheme}.impl to its class"
        )
    setting = f", and set spark.hadoop.fs.{scheme}.impl={_S3A}" if scheme != "s3a" else ""
    return CheckpointError(
        f"{what}. Spark writes its own checkpoint there through Hadoop, which PySpark has without "
        f"S3: set spark.jars.packages=org.apache.hadoop:hadoop-aws:{hadoop_version} (or put this "
        f"jar and those that it needs into Spark's folder of jars){setting}. Endpoint and "
        "credentials of this access are spark.hadoop.fs.s3a.*: see docs/checkpoints.md, A job on S3"
    )


_RETRY_AFTER_MS = 100


class SparkFiles:
    """The files below one folder; local folders are accessed without the JVM.

    Names are relative to the folder, with slashes. A failed read raises RetryLaterError, a failed
    write CheckpointError; both name the file. Hidden files (checksums, unfinished files) are not
    listed.
    """

    def __init__(self, context: SparkContext, root: str) -> None:
        self._context = context
        self._root = root.rstrip("/")
        self._local = _local_path(root)

    @classmethod
    def of(cls, context: SparkContext, path: str) -> SparkFiles:
        """The files below a user's path; without a scheme it is on Spark's default file system.

        Raises CheckpointError if Spark has no file system for it.
        """
        jvm: Any = context._jvm
        try:
            whole = jvm.org.apache.hadoop.fs.Path(path)
            system = whole.getFileSystem(context._jsc.hadoopConfiguration())
            return cls(context, system.makeQualified(whole).toString())
        except Py4JError as problem:
            version = jvm.org.apache.hadoop.util.VersionInfo.getVersion()
            raise folder_error(path, _java_message(problem), str(version)) from problem

    @property
    def root(self) -> str:
        """URI of the folder."""
        return self._root

    def local(self, name: str) -> Path | None:
        """The path of a file on the local disk; None if the folder is not local."""
        return None if self._local is None else self._local / name

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if it does not exist."""
        if self._local is not None:
            try:
                return (self._local / name).read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                return None
            except OSError as problem:
                raise self._unreadable(name, problem) from problem
        try:
            path, system = self._remote(name)
            if not system.exists(path):
                return None
            stream = system.open(path)
            try:
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()
        except Py4JError as problem:
            if _is_missing(problem):
                return None
            raise self._unreadable(name, problem) from problem

    def exists(self, name: str) -> bool:
        """True if the file or folder exists."""
        if self._local is not None:
            return (self._local / name).exists()
        try:
            path, system = self._remote(name)
            return bool(system.exists(path))
        except Py4JError as problem:
            raise self._unreadable(name, problem) from problem

    def walk(self, folder: str = "") -> list[str]:
        """Sorted names of all files below a folder; empty if it does not exist."""
        return sorted(self._walk(folder))

    def names(self, folder: str = "") -> list[str]:
        """Sorted names of the files and folders in a folder; empty if it does not exist."""
        return sorted(name for name, _ in self._children(folder))

    def write(self, name: str, content: bytes) -> None:
        """Writes or replaces a file, and creates its folders."""
        try:
            if self._local is not None:
                target = self._local / name
                target.parent.mkdir(parents=True, exist_ok=True)
                draft = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
                draft.write_bytes(content)
                draft.replace(target)
                return
            path, system = self._remote(name)
            stream = system.create(path, True)
            try:
                stream.write(bytearray(content))
            finally:
                stream.close()
        except (OSError, Py4JError) as problem:
            raise CheckpointError(
                f"{self._root}/{name} cannot be written: {problem}; check that the folder exists "
                "and that the driver may write to it"
            ) from problem

    def delete(self, name: str) -> None:
        """Removes a file and its checksum file, if they exist."""
        folder, _, base = name.rpartition("/")
        checksum = f"{folder}/.{base}.crc" if folder else f".{base}.crc"
        try:
            for each in (name, checksum):
                if self._local is not None:
                    (self._local / each).unlink(missing_ok=True)
                else:
                    path, system = self._remote(each)
                    system.delete(path, False)
        except (OSError, Py4JError) as problem:
            raise CheckpointError(
                f"{self._root}/{name} cannot be removed: {problem}; check that the driver may "
                "write to the folder"
            ) from problem

    def _walk(self, folder: str) -> list[str]:
        found: list[str] = []
        for name, is_folder in self._children(folder):
            path = f"{folder}/{name}" if folder else name
            found += self._walk(path) if is_folder else [path]
        return found

    def _children(self, folder: str) -> list[tuple[str, bool]]:
        if self._local is not None:
            try:
                found = [(entry.name, entry.is_dir()) for entry in (self._local / folder).iterdir()]
            except (FileNotFoundError, NotADirectoryError):
                return []
            except OSError as problem:
                raise self._unreadable(folder, problem) from problem
        else:
            try:
                path, system = self._remote(folder)
                if not system.exists(path):
                    return []
                statuses = system.listStatus(path)
                found = [(s.getPath().getName(), bool(s.isDirectory())) for s in statuses]
            except Py4JError as problem:
                if _is_missing(problem):
                    return []
                raise self._unreadable(folder, problem) from problem
        return [(name, is_folder) for name, is_folder in found if not name.startswith(".")]

    def _remote(self, name: str) -> tuple[Any, Any]:
        whole = f"{self._root}/{name}" if name else self._root
        path = self._jvm.org.apache.hadoop.fs.Path(whole)
        return path, path.getFileSystem(self._context._jsc.hadoopConfiguration())

    @property
    def _jvm(self) -> Any:
        return self._context._jvm

    def _unreadable(self, name: str, problem: Exception) -> RetryLaterError:
        return RetryLaterError(
            f"{self._root}/{name} cannot be read now: {problem}", retry_after_ms=_RETRY_AFTER_MS
        )


def _java_message(problem: Py4JError) -> str:
    """The text of the Java exception, without its stack trace."""
    exception = getattr(problem, "java_exception", None)
    return str(problem if exception is None else exception.toString())


def _is_missing(problem: Py4JError) -> bool:
    """True if the file was removed between two calls."""
    return "java.io.FileNotFoundException" in str(problem)


def _local_path(root: str) -> Path | None:
    """The path of a local folder; None if it is not local. Spark does not escape such URIs."""
    if root.startswith("file:"):
        return Path(re.sub(r"^file:/*", "/", root))
    return Path(root) if root.startswith("/") else None
