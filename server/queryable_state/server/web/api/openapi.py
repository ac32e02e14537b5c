"""OpenAPI document of the REST paths, made from their declarations."""

from __future__ import annotations

import functools
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from queryable_state.server.web.api import schemas
from queryable_state.server.web.http.error_answers import STATUSES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from queryable_state.server.web.api.parameters import Parameter
    from queryable_state.server.web.api.route import Route

_JSON = "application/json"

_ABOUT = (
    "Looks up the keyed state of running PySpark Structured Streaming jobs. Errors have the "
    "reasons of the gRPC service. Where the server has an access file, each request needs "
    "`Authorization: Bearer TOKEN`."
)


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """The document of these paths, OpenAPI 3.1."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "spark-queryable-state",
            "description": _ABOUT,
            "version": _version(),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {}],
        "paths": paths,
        "components": {
            "schemas": schemas.COMPONENTS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


@functools.cache
def _version() -> str:
    try:
        return version("spark-queryable-state")
    except PackageNotFoundError:
        # Shipped without its metadata, as by `--py-files`.
        return "unknown"


def _operation(route: Route) -> dict[str, Any]:
    kind = "text/event-stream" if route.is_stream else _JSON
    responses: dict[str, Any] = {"200": _response("The answer.", route.schema, kind)}
    for status, meaning in STATUSES.items():
        responses[str(status)] = _response(meaning, schemas.ERROR)
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "parameters": [_parameter(each) for each in route.parameters],
        "responses": responses,
    }
    if route.body is not None:
        for status, meaning in _OF_BODIES.items():
            responses[str(status)] = _response(meaning, schemas.ERROR)
        content: dict[str, Any] = {"schema": route.body}
        if route.example is not None:
            content["example"] = route.example
        operation["requestBody"] = {"required": True, "content": {_JSON: content}}
    return operation


_OF_BODIES = {
    408: "The body did not arrive in time.",
    413: "The body is too long: split the request.",
    415: "The body is not declared as JSON: send `Content-Type: application/json`.",
}


def _response(meaning: str, schema: Any, kind: str = _JSON) -> dict[str, Any]:
    return {"description": meaning, "content": {kind: {"schema": schema}}}


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.required,
        "description": parameter.meaning,
        "schema": parameter.schema(),
    }
