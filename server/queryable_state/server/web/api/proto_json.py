"""JSON of protobuf messages, and its schemas: fields by their names in the proto.

64-bit numbers are JSON numbers, enums their names, bytes base64; ids of jobs and runs are hex
digits. Fields without a value have their default, messages that are not set are left out.
"""

from __future__ import annotations

import base64
import math
from typing import TYPE_CHECKING, Any

from google.protobuf.descriptor import FieldDescriptor

if TYPE_CHECKING:
    from google.protobuf.message import Message

    # The stubs of descriptors disagree with those of the implementation in C.
    _Field = Any
    _Descriptor = Any

_HEX = frozenset({"job_id", "query_id", "run_id"})


def message_json(message: Message) -> dict[str, Any]:
    """The JSON object of a message."""
    found: dict[str, Any] = {}
    fields: list[_Field] = list(message.DESCRIPTOR.fields)
    for field in fields:
        if field.has_presence and not message.HasField(field.name):
            continue
        value = getattr(message, field.name)
        if _is_map(field):
            of_values = field.message_type.fields_by_name["value"]
            found[field.name] = {str(name): _value(of_values, each) for name, each in value.items()}
        elif field.is_repeated:
            found[field.name] = [_value(field, each) for each in value]
        else:
            found[field.name] = _value(field, value)
    return found


def message_schema(descriptor: _Descriptor, schemas: dict[str, Any]) -> dict[str, Any]:
    """A reference to the schema of a message, which is added to `schemas` with those it names."""
    name = descriptor.name
    if name not in schemas:
        schemas[name] = {}
        schemas[name] = {
            "type": "object",
            "properties": {
                field.name: _field_schema(field, schemas) for field in descriptor.fields
            },
            "required": [each.name for each in descriptor.fields if not each.has_presence],
        }
    return {"$ref": f"#/components/schemas/{name}"}


def _is_map(field: _Field) -> bool:
    return bool(field.message_type is not None and field.message_type.GetOptions().map_entry)


def _value(field: _Field, value: Any) -> Any:
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        return message_json(value)
    if field.type == FieldDescriptor.TYPE_ENUM:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    if field.type == FieldDescriptor.TYPE_BYTES:
        return value.hex() if field.name in _HEX else base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _field_schema(field: _Field, schemas: dict[str, Any]) -> dict[str, Any]:
    if _is_map(field):
        values = field.message_type.fields_by_name["value"]
        return {"type": "object", "additionalProperties": _value_schema(values, schemas)}
    schema = _value_schema(field, schemas)
    return {"type": "array", "items": schema} if field.is_repeated else schema


def _value_schema(field: _Field, schemas: dict[str, Any]) -> dict[str, Any]:
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        return message_schema(field.message_type, schemas)
    if field.type == FieldDescriptor.TYPE_ENUM:
        # No list of names: a newer server may have more.
        return {"type": "string"}
    if field.type == FieldDescriptor.TYPE_BOOL:
        return {"type": "boolean"}
    if field.type in (FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FLOAT):
        return {"type": ["number", "null"]}
    if field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES):
        return {"type": "string"}
    return {"type": "integer"}
