"""`python -m benchmarks.native.s3_server`: an S3 server in memory, with a time for each request.

Prints its URL as a line of JSON. Each further line of its input is the time in milliseconds that
requests take from then on; the answer has the number of requests since the last one. It ends with
its input.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class SlowedApplication:
    """A WSGI application in front of another one, as far away as a real S3 is."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self._application = application
        self.delay_s = 0.0
        """Before each request."""
        self.requests = 0
        """Number of requests so far."""
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        with self._lock:
            self.requests += 1
        time.sleep(self.delay_s)
        return self._application(environ, start_response)


def main() -> None:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application = SlowedApplication(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, application, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    _say(url=f"http://127.0.0.1:{server.port}")
    told = 0
    for line in sys.stdin:
        application.delay_s = float(json.loads(line)) / 1000
        requests = application.requests
        _say(requests=requests - told)
        told = requests
    server.shutdown()


def _say(**answer: Any) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
