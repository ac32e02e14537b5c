"""Jars from Maven Central, pinned by version and checksum.

A list of jars is a file with one `group:artifact:version sha256` a line. Apache Ivy downloads them;
it is among PySpark's own jars. They are kept in a folder of the user and checked at every use.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import pyspark

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_TIMEOUT_S: Final = 600
_SHOWN_LINES: Final = 12
_NAME: Final = "[organisation]=[artifact]=[revision].jar"
_PYSPARK_JARS: Final = Path(pyspark.__file__).parent / "jars"


class JarsUnavailableError(RuntimeError):
    """The jars are not here and cannot be downloaded: the message says why and what to do."""


@dataclass(frozen=True)
class Jar:
    """One jar of a list."""

    group: str
    artifact: str
    version: str
    sha256: str

    @classmethod
    def parse(cls, line: str) -> Self:
        """The jar of one line of a list; raises ValueError if the line has another form."""
        coordinate, sha256 = line.split()
        group, artifact, version = coordinate.split(":")
        return cls(group, artifact, version, sha256)

    @property
    def file_name(self) -> str:
        """The name of its file in the folder."""
        return f"{self.group}={self.artifact}={self.version}.jar"

    def is_in(self, folder: Path) -> bool:
        """True if the folder has the jar, with this checksum."""
        try:
            content = (folder / self.file_name).read_bytes()
        except FileNotFoundError:
            return False
        return hashlib.sha256(content).hexdigest() == self.sha256


def read_jars(pinned: Path) -> list[Jar]:
    """The jars of a list."""
    return [Jar.parse(line) for line in pinned.read_text().splitlines()]


def default_folder() -> Path:
    """The folder of the user in which jars are kept: `~/.cache/spark-queryable-state/jars`."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "spark-queryable-state" / "jars"


def resolve(
    jars: Sequence[Jar], folder: Path | None = None, *, ivy_settings: Path | None = None
) -> list[Path]:
    """The files of the jars; downloads those that the folder lacks.

    `ivy_settings` is a file of Ivy's settings, for a mirror of Maven Central. Raises
    JarsUnavailableError if a jar cannot be downloaded or has another checksum.
    """
    kept = folder or default_folder()
    missing = [jar for jar in jars if not jar.is_in(kept)]
    if missing:
        kept.mkdir(parents=True, exist_ok=True)
        # Beside the kept ones, so that each is renamed into place whole.
        with tempfile.TemporaryDirectory(prefix="download-", dir=kept) as download:
            retrieve(_as_ivy(missing), Path(download), ivy_settings)
            for jar in missing:
                if not jar.is_in(Path(download)):
                    raise JarsUnavailableError(
                        f"{jar.group}:{jar.artifact}:{jar.version} from Maven Central does not "
                        f"have the pinned SHA-256 {jar.sha256}: it was not used. Check the mirror "
                        "or proxy that this machine downloads from"
                    )
                (Path(download) / jar.file_name).replace(kept / jar.file_name)
    return [kept / jar.file_name for jar in jars]


def retrieve(ivy_file: str, folder: Path, ivy_settings: Path | None = None) -> None:
    """Lets Ivy put the jars of an `ivy.xml` into a folder.

    Raises JarsUnavailableError if Ivy or Java is missing, or a jar cannot be downloaded.
    """
    described = folder / "ivy.xml"
    described.write_text(ivy_file)
    command = [
        *(java(), "-jar", str(_ivy()), "-ivy", str(described), "-cache", str(folder / "ivy")),
        *(() if ivy_settings is None else ("-settings", str(ivy_settings))),
        *("-retrieve", str(folder / _NAME)),
    ]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise _unavailable(f"no end after {_TIMEOUT_S} s") from None
    if done.returncode:
        lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
        raise _unavailable("\n".join(lines[-_SHOWN_LINES:]) or done.stderr.strip())


def java() -> str:
    """The command of the Java of JAVA_HOME or PATH; raises JarsUnavailableError without one."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(str(Path(home) / "bin" / "java") if home else "java")
    if found is None:
        where = f"in JAVA_HOME ({home})" if home else "on PATH, and JAVA_HOME is not set"
        raise JarsUnavailableError(f"there is no java {where}: install Java 17 or newer")
    return found


def dependency(coordinate: str, *, transitive: bool) -> str:
    """The element of an `ivy.xml` for `group:artifact:version`."""
    group, artifact, version = coordinate.split(":")
    return (
        f'<dependency org="{group}" name="{artifact}" rev="{version}"'
        f' conf="default->runtime,master" transitive="{str(transitive).lower()}"/>'
    )


def ivy_xml(dependencies: Iterable[str]) -> str:
    """An `ivy.xml` with these dependencies."""
    return (
        '<ivy-module version="2.0"><info organisation="spark-queryable-state" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(dependencies)}</dependencies></ivy-module>"
    )


def _as_ivy(jars: Iterable[Jar]) -> str:
    coordinates = (f"{jar.group}:{jar.artifact}:{jar.version}" for jar in jars)
    return ivy_xml(dependency(each, transitive=False) for each in coordinates)


def _ivy() -> Path:
    found = sorted(_PYSPARK_JARS.glob("ivy-*.jar"))
    if not found:
        raise JarsUnavailableError(f"PySpark has no Ivy to download jars with: {_PYSPARK_JARS}")
    return found[-1]


def _unavailable(why: str) -> JarsUnavailableError:
    return JarsUnavailableError(
        "jars of Kafka cannot be downloaded from Maven Central. Check that this machine reaches it "
        f"or pass the ivy_settings of a mirror. Ivy says:\n{why}"
    )
