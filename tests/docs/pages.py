"""The documentation pages and their fenced code blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

PAGES = tuple(
    sorted(
        [
            ROOT / "README.md",
            ROOT / "CONTRIBUTING.md",
            *(ROOT / "docs").rglob("*.md"),
            *(ROOT / "deploy").rglob("*.md"),
        ]
    )
)

RUN = frozenset({"python", "console", "toml"})
"""Languages of blocks that `test_code_blocks.py` runs; it writes TOML into the file that its first
line names, as in `# access.toml`."""

ILLUSTRATION = frozenset({"text", "json", "properties", "toml", "mermaid"})
"""Languages of blocks that show output, configuration or a picture."""

_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>```+)(?P<language>[^\n`]*)$")


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    page: Path
    line: int
    """Line of the opening fence, from 1."""
    language: str
    """Empty if the fence names none."""
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found: list[Block] = []
    opened: tuple[int, str, str] | None = None
    body: list[str] = []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = _FENCE.match(line)
        if fence is None:
            body.append(line)
        elif opened is None:
            opened = number, fence["ticks"], fence["language"].strip()
            body = []
        elif fence["ticks"] == opened[1] and not fence["language"]:
            found.append(Block(page, opened[0], opened[2], "\n".join(body)))
            opened = None
    assert opened is None, f"{page} has a block that does not end"
    return found


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    lines = page.read_text(encoding="utf-8").splitlines()
    for block in blocks(page):
        end = block.line + block.text.count("\n") + (2 if block.text else 1)
        lines[block.line - 1 : end] = [""] * (end - block.line + 1)
    return "\n".join(lines)


def commands(block: Block) -> list[str]:
    """The commands of a console block: lines behind `$ `, joined where they end with a backslash.

    The other lines are output.
    """
    found: list[str] = []
    continued = False
    for line in block.text.splitlines():
        if continued:
            found[-1] += " " + line.strip()
        elif line.startswith("$ "):
            found.append(line[2:])
        else:
            continue
        continued = found[-1].endswith("\\")
        found[-1] = found[-1].removesuffix("\\").rstrip()
    return found
