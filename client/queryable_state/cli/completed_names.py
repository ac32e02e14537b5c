"""Arguments that shells complete by the names of jobs and states."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

_PREAMBLE = {
    "bash": """\
_queryable_state_names() {{
  queryable-state completion bash --names "$1" --line "${{COMP_LINE:0:$COMP_POINT}}" 2>/dev/null |
    while IFS= read -r name; do [[ "$name" == "$2"* ]] && printf '%s\\n' "$name"; done
}}
_queryable_state_{kind}() {{ _queryable_state_names {kind} "$1"; }}
""",
    "zsh": """\
_queryable_state_{kind}() {{
  local -a names
  names=("${{(@f)$(queryable-state completion zsh --names {kind} --line "$BUFFER" 2>/dev/null)}}")
  compadd -a names
}}
""",
}


def complete(argument: argparse.Action, kind: str) -> None:
    """Completes an argument by the names of `jobs` or `states`, in the shells that can."""
    argument.complete = {  # type: ignore[attr-defined]
        **dict.fromkeys(_PREAMBLE, f"_queryable_state_{kind}"),
        "preamble": {shell: text.format(kind=kind) for shell, text in _PREAMBLE.items()},
    }
