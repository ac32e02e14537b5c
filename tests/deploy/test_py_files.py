"""`spark-submit --py-files` with a zip of this package: executors that lack only this package run
it, and those that lack its compiled packages are refused at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from tests.chaos.clusters import LocalCluster
from tests.deploy.pythons import python_without

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("py_files_program.py")
PACK = ROOT / "deploy" / "spark-submit" / "pack_py_files.sh"
SPARK_HOME = Path(pyspark.__file__).parent

# Spark tries a task four times: with a task timeout of 60 s each, a server that is only waited for
# takes over 240 s.
_AT_ONCE_S = 120.0


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as a zip, made by the documented script."""
    path = tmp_path_factory.mktemp("archive") / "queryable_state.zip"
    subprocess.run([PACK, path], check=True, timeout=120)
    return path


def _submit(
    archive: Path, python: str, folder: Path, *, driver: str = ""
) -> subprocess.CompletedProcess[str]:
    """Runs the program; `driver`: the driver's Python, if it is not the executors'."""
    source = folder / "source"
    source.mkdir()
    (source / "0.json").write_text('{"sensor": "a", "temperature": 21.5}\n')
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "VIRTUAL_ENV", "PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON")
    }
    with LocalCluster(folder / "cluster") as cluster:
        return subprocess.run(
            [
                str(SPARK_HOME / "bin" / "spark-submit"),
                *("--master", "local-cluster[1,1,1024]"),
                *("--conf", "spark.ui.enabled=false"),
                *("--conf", "spark.sql.shuffle.partitions=1"),
                *("--conf", f"spark.pyspark.python={python}"),
                *("--conf", f"spark.pyspark.driver.python={driver or python}"),
                *("--conf", "spark.log.level=WARN"),
                *("--py-files", str(archive)),
                str(PROGRAM),
                str(source),
            ],
            env={**environment, **cluster.environment},
            cwd=folder,
            # spark-submit writes a program's standard error to its own standard output.
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
            check=False,
        )


def _seconds(output: str) -> float:
    """What the program measured from the start of the job to its end."""
    return float(output.partition("SECONDS ")[2].split()[0])


def _of_program(output: str) -> str:
    """The output without the lines of Spark's log and the JVM's traces."""
    lines = (line for line in output.splitlines() if not line.startswith(("2", "\tat ")))
    return "\n".join(lines)[-6000:]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_zip_of_the_package_runs_where_the_other_packages_are_installed(
    archive: Path, tmp_path: Path
) -> None:
    """Driver, tasks and state server import it from the zip, also from the server's own folder."""
    finished = _submit(archive, python_without(tmp_path / "python"), tmp_path)
    assert "RESULT 21.5" in finished.stdout, _of_program(finished.stdout)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_compiled_packages_that_py_files_cannot_ship_are_named_at_once(
    archive: Path, tmp_path: Path
) -> None:
    python = python_without(tmp_path / "python", "rocksdict")
    finished = _submit(archive, python, tmp_path)
    assert finished.returncode
    missing = "package rocksdict, which is not installed"
    for part in (missing, "--py-files", "--archives", str(archive)):
        assert part in finished.stdout, _of_program(finished.stdout)
    # Before a job starts.
    assert "SECONDS" not in finished.stdout


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_state_server_that_cannot_import_ends_the_job_with_its_log(
    archive: Path, tmp_path: Path
) -> None:
    """A package that is found but does not load: tasks run, their state server does not."""
    python = python_without(tmp_path / "python", broken="uvloop")
    finished = _submit(archive, python, tmp_path, driver=sys.executable)
    assert finished.returncode
    for part in ("libbroken.so.1", "cannot start", python, "--archives"):
        assert part in finished.stdout, _of_program(finished.stdout)
    assert _seconds(finished.stdout) < _AT_ONCE_S
