"""Log lines of a program that uses the package, on its standard error."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

_LINE = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} WARNING queryable_state\.streaming: it is slow"


def errors_of(code: str) -> list[str]:
    """The lines that a program writes to its standard error."""
    head = (
        "import logging\n"
        "from queryable_state.server.process.console_log import log_to_console\n"
        "log = logging.getLogger('queryable_state.streaming')\n"
    )
    ended = subprocess.run([sys.executable, "-c", head + code], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "")
    return ended.stderr.splitlines()


def test_a_warning_has_time_level_and_logger() -> None:
    (line,) = errors_of("log_to_console(); log_to_console(); log.warning('it is %s', 'slow')")
    assert re.fullmatch(_LINE, line)


def test_levels_are_those_of_the_program() -> None:
    code = "log_to_console(); log.info('told'); log.setLevel('INFO'); log.info('it is slow')"
    (line,) = errors_of(code)
    assert "INFO queryable_state.streaming: it is slow" in line


_OWN_HANDLER = """
handler = logging.StreamHandler()
handler.setFormatter(logging.Formatter("mine: %(message)s"))
logging.getLogger("queryable_state").addHandler(handler)
"""


@pytest.mark.parametrize(
    "configured",
    ["logging.basicConfig(format='mine: %(message)s')", _OWN_HANDLER],
    ids=["root", "own logger"],
)
def test_a_program_that_configures_logging_gets_each_line_once(configured: str) -> None:
    """Before or after the package is used."""
    for steps in ((configured, "log_to_console()"), ("log_to_console()", configured)):
        code = "\n".join((*steps, "log.warning('it is slow')"))
        assert errors_of(code) == ["mine: it is slow"]


def test_a_replaced_standard_error_gets_the_lines() -> None:
    code = (
        "import io, sys; log_to_console(); real, sys.stderr = sys.stderr, io.StringIO();"
        "log.warning('kept'); sys.stderr = None; log.warning('lost'); sys.stderr = real;"
        "log.warning('it is slow')"
    )
    (line,) = errors_of(code)
    assert re.fullmatch(_LINE, line)
