"""Server of recorded REST answers, whose job a test changes while a page shows it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from aiohttp import web
from tests.page import recorded_job, recorded_states

from queryable_state.server.web.http.security_headers import HEADERS

PAGE = Path(__file__).parents[2] / "server/queryable_state/server/web/page"
ALL_PATHS = (
    "jobs",
    "jobs/{job}",
    "jobs/{job}/states",
    "jobs/{job}/states/{state}",
    "jobs/{job}/states/{state}/value",
    "jobs/{job}/states/{state}/scan",
    "jobs/{job}/states/{state}/watch",
    "jobs/{job}/states/{state}/windows",
    "jobs/{job}/timers",
    "jobs/{job}/hot-keys",
    "jobs/{job}/states/{state}/hot-keys",
    "jobs/{job}/states/{state}/size",
    "servers",
)


class RecordedServer:
    """The answers; the attributes are what a test changes."""

    def __init__(self) -> None:
        self.batch = 1841
        self.lost: str | None = None
        self.token: str | None = None
        self.jobs = recorded_job.jobs()
        self.paths: tuple[str, ...] = ALL_PATHS
        self.address = ""
        self.asked: list[str] = []
        self._committed = asyncio.Condition()
        self._runner: web.AppRunner | None = None
        self._port = 0

    async def start(self) -> None:
        """Listens, on the same port as before."""
        app = web.Application(middlewares=[self._check])
        add = app.router.add_get
        state = "/api/v1/jobs/{job}/states/{state}"
        add("/api/v1/openapi.json", self._document)
        add("/api/v1/jobs", self._jobs)
        add("/api/v1/jobs/{job}", self._job)
        add("/api/v1/jobs/{job}/states", self._states)
        add("/api/v1/jobs/{job}/timers", self._timers)
        add("/api/v1/jobs/{job}/hot-keys", self._hot_keys)
        add("/api/v1/servers", self._servers)
        add(state, self._state)
        add(f"{state}/value", self._value)
        add(f"{state}/scan", self._scan)
        add(f"{state}/watch", self._watch)
        add(f"{state}/windows", self._windows)
        add(f"{state}/hot-keys", self._hot_keys)
        add(f"{state}/size", self._size)
        add("/", self._page)
        app.router.add_static("/", PAGE)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await site.start()
        self._port = self._runner.addresses[0][1]
        self.address = f"http://127.0.0.1:{self._port}/"

    async def stop(self) -> None:
        """Closes the port and all connections."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def commit(self) -> None:
        """Commits one batch, in which every sensor changes."""
        async with self._committed:
            self.batch += 1
            self._committed.notify_all()

    @web.middleware
    async def _check(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.asked.append(request.path_qs)
        is_data = request.path.startswith("/api/") and not request.path.endswith("openapi.json")
        given = request.headers.get("Authorization", "")
        if is_data and self.token is not None and given != f"Bearer {self.token}":
            answer = _refusal(401, "UNAUTHENTICATED", "a token is needed: give one that is known")
        else:
            answer = await handler(request)
        if not answer.prepared:
            answer.headers.update(HEADERS)
        return answer

    async def _page(self, _request: web.Request) -> web.FileResponse:
        return web.FileResponse(PAGE / "index.html")

    async def _document(self, _request: web.Request) -> web.Response:
        return _json({"paths": {f"/api/v1/{path}": {} for path in self.paths}})

    async def _jobs(self, _request: web.Request) -> web.Response:
        for job in self.jobs:
            job["committed_batch"] = self.batch
        return _json({"jobs": self.jobs})

    async def _job(self, request: web.Request) -> web.Response:
        name = request.match_info["job"]
        infos = [job for job in self.jobs if name in (job["name"], job["job_id_hex"])]
        if not infos:
            return _refusal(404, "UNKNOWN_JOB", f"there is no job {name!r}")
        troubled = infos[0]["health"] in ("FAILING", "RESTARTING")
        found = recorded_job.description(lost=self.lost, healthy=not troubled)
        found["info"] = infos[0]
        if "history" in request.query:
            found["history"] = recorded_job.history(found["as_of_ms"])
        return _json(found)

    async def _states(self, _request: web.Request) -> web.Response:
        return _json({"states": recorded_states.STATES})

    async def _state(self, request: web.Request) -> web.Response:
        found = self._registration(request)
        if found is None:
            return _refusal(404, "UNKNOWN_STATE", "there is no such state", ["lastTemperature"])
        return _json(found)

    def _registration(self, request: web.Request) -> dict[str, Any] | None:
        name = request.match_info["state"]
        return next((s for s in recorded_states.STATES if s["queryable_name"] == name), None)

    async def _value(self, request: web.Request) -> web.Response:
        name, text = request.match_info["state"], request.query["key"]
        key = json.loads(text) if name == "device" else text.strip('"')
        value = recorded_states.value_of(name, key, self.batch)
        traced = {"trace": recorded_states.trace()} if "explain" in request.query else {}
        if self.lost:
            message = "key group 77 has no owner now; its state is being loaded"
            return _refusal(503, "NO_OWNER", message)
        if value is None:
            return _refusal(404, "UNKNOWN_KEY", f"no value under key {text!r} of state {name}")
        answer = {"key": key, "value": value, "info": recorded_states.read_info(self.batch)}
        return _json({**answer, **traced})

    async def _scan(self, request: web.Request) -> web.Response:
        name, query = request.match_info["state"], request.query
        begin, limit = int(query.get("cursor", 0)), int(query["limit"])
        keys: list[Any] = [
            k for k in recorded_states.SENSORS if k.startswith(query.get("prefix", ""))
        ]
        if name == "device":
            keys = [["AA", 3], ["AA", 4]]
        rows = [
            {"key": key, "value": recorded_states.value_of(name, key, self.batch)}
            for key in keys[begin : begin + limit]
        ]
        answer: dict[str, Any] = {
            "keys": rows,
            "info": recorded_states.read_info(self.batch),
            "complete": True,
            "newer": False,
        }
        if begin + limit < len(keys):
            answer["cursor"] = str(begin + limit)
        return _json(answer)

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        name, key = request.match_info["state"], request.query["key"]
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream", **HEADERS})
        await answer.prepare(request)
        _, _, resumed = request.headers.get("Last-Event-ID", "").rpartition(":")
        seen = int(resumed or self.batch)
        await answer.write(_event(seen, {"batch": seen, "commit_time_ms": 0, "complete": True}))
        while True:
            async with self._committed:
                while self.batch <= seen:
                    await self._committed.wait()
                batch = self.batch
            new, old = (recorded_states.value_of(name, key, each) for each in (batch, seen))
            change = {
                "kind": "PUT",
                "key_json": json.dumps(key),
                "value_json": json.dumps(new),
                "old_value_json": json.dumps(old),
                "old_unknown": False,
            }
            message = {
                "batch": batch,
                "commit_time_ms": recorded_job.now_ms(),
                "changes": [change],
                "complete": True,
            }
            await answer.write(_event(batch, message))
            seen = batch

    async def _windows(self, request: web.Request) -> web.Response:
        return _json({"key": request.query["key"], "windows": recorded_states.windows(self.batch)})

    async def _timers(self, _request: web.Request) -> web.Response:
        now = recorded_job.now_ms()
        timers = [
            {"clock": "EVENT_TIME", "timestamp_ms": now + 51_000, "window": None},
            {"clock": "PROCESSING_TIME", "timestamp_ms": now + 8000, "window": None},
        ]
        info = recorded_states.read_info(self.batch)
        operator = {
            "operator_uid": "monitor",
            "queryable_name": "t",
            "timers": timers,
            "info": info,
        }
        return _json({"operators": [operator]})

    async def _size(self, _request: web.Request) -> web.Response:
        return _json(recorded_states.SIZE)

    async def _hot_keys(self, request: web.Request) -> web.Response:
        return _json(recorded_states.hot_keys(request.match_info.get("state", "")))

    async def _servers(self, _request: web.Request) -> web.Response:
        found = recorded_job.servers(lost=self.lost)
        return _json({"servers": found, "as_of_ms": recorded_job.now_ms(), "age_ms": 0})


def _json(body: object) -> web.Response:
    return web.json_response(body, headers={"Cache-Control": "no-store"})


def _refusal(
    status: int, reason: str, message: str, candidates: list[str] | None = None
) -> web.Response:
    error = {
        "reason": reason,
        "message": message,
        "retry_after_ms": 0,
        "candidates": candidates or [],
    }
    return web.json_response({"error": error}, status=status)


def _event(batch: int, message: dict[str, Any]) -> bytes:
    data = json.dumps(message)
    return f"id: {recorded_job.JOB_ID}:{batch}\nevent: changes\ndata: {data}\n\n".encode()
