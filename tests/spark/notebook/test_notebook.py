"""The notebook of the examples, run by a kernel of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(400)]

NOTEBOOK = Path(__file__).parents[3] / "examples" / "explore_job.ipynb"


def outputs_of(notebook: Any, source: str) -> list[Any]:
    """What the last expression of the cell with this text shows."""
    (cell,) = (cell for cell in notebook.cells if source in cell.source)
    return [output for output in cell.outputs if output.output_type == "execute_result"]


def test_the_notebook_runs_and_shows_tables(tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    kept = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=kept).execute()
    for source, shown in (
        ('"readings", "sensor_9")', "celsius"),
        ("client.multi_get(", "nothing is stored"),
        ("client.explain(", "margin-left"),
        ("client.describe_job(", "subtasks; servers: 1"),
        ("await asking.get_kv_state(", "celsius"),
    ):
        (output,) = outputs_of(notebook, source)
        assert shown in output.data["text/html"]
    (frame,) = outputs_of(notebook, "to_pandas()")
    assert "sensor_7" in frame.data["text/html"]


def test_the_notebook_is_kept_without_outputs() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") for cell in notebook.cells)
