"""A person on call, who has the command line and the answers that the page shows."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from typing import Any

# The promise: a cause stands there within a minute.
DEADLINE_S = 120.0


@dataclasses.dataclass(frozen=True)
class OnCall:
    """Looks at jobs through one proxy and its web port."""

    proxy: str
    """HOST:PORT."""
    web: str
    """URL."""
    token: str = ""

    def command(self, *words: str) -> str:
        """What `queryable-state` prints."""
        address = f"--server={self.proxy}"
        ended = subprocess.run(
            [sys.executable, "-m", "queryable_state.cli", *words, address, "--timeout=30"],
            env=os.environ | ({"QUERYABLE_STATE_TOKEN": self.token} if self.token else {}),
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        return ended.stdout + ended.stderr

    def rest(self, path: str) -> Any:
        """The answer to GET."""
        headers = {"authorization": f"Bearer {self.token}"} if self.token else {}
        request = urllib.request.Request(f"{self.web}/api/v1/{path}", headers=headers)
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
            return json.load(answer)

    def job(self, name: str) -> Any:
        """The job as the page shows it."""
        return self.rest(f"jobs/{urllib.parse.quote(name)}")

    def sees(self, job: str, code: str, *words: str, step: str) -> dict[str, Any]:
        """Waits for a finding by REST, and then in `status`; returns it.

        `words` stand in its message, `step` in its next step.
        """
        begun_s = time.monotonic()
        while True:
            described = self.job(job)
            found = [
                finding
                for finding in described.get("findings", ())
                if finding["code"] == code and all(word in finding["message"] for word in words)
            ]
            if found:
                break
            assert time.monotonic() < begun_s + DEADLINE_S, json.dumps(
                {"findings": described.get("findings"), "errors": described.get("errors")}
            )
            time.sleep(0.2)
        finding: dict[str, Any] = found[0]
        assert step in finding["next_step"], finding
        assert finding["since_ms"], finding
        # The proxy may have to start again, and as of another moment counts and ages differ.
        wanted = (f" {code} since ", *words, f"next: {finding['next_step']}")
        status = self.command("status", job)
        while not all(word in status for word in wanted):
            assert time.monotonic() < begun_s + DEADLINE_S, status
            status = self.command("status", job)
        return finding

    def sees_nothing(self, job: str) -> None:
        """A healthy job: no finding, by REST and in `status`."""
        described = self.job(job)
        assert not described.get("findings"), described["findings"]
        assert described["info"]["health"] == "HEALTHY"
        status = self.command("status", job)
        assert "HEALTHY" in status, status
        assert "next:" not in status, status
