"""Execution options of the JVM's serializers and closures, kept and returned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self

from queryable_state.server.settings.flink_options import METHODS, OPTIONS, warn_without_effect

if TYPE_CHECKING:
    from collections.abc import Mapping


ALL_OPTIONS: Final = {**OPTIONS, **METHODS}


class KeptOptions:
    """Options by Flink's key. The first value other than the default of an option without effect
    logs a WARNING with the reason."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options: dict[str, Any] = {}
        self._warned: set[str] = set()
        for key, value in options.items():
            self._keep(key, value)

    def configure(self, options: Mapping[str, Any]) -> None:
        """Sets options by Flink's key, with values of their types."""
        for key, value in options.items():
            self._keep(key, value)

    def option(self, key: str) -> Any:
        """The value of an option by Flink's key; its default if it is not set."""
        return self._kept(key)

    def _keep(self, key: str, value: Any) -> Self:
        option = ALL_OPTIONS[key]
        if option.no_effect and value != option.default:
            warn_without_effect(key, option.no_effect, self._warned)
        self._options[key] = value
        return self

    def _kept(self, key: str) -> Any:
        return self._options.get(key, ALL_OPTIONS[key].default)

    def enable_closure_cleaner(self) -> Self:
        """Keeps that closures are cleaned."""
        return self._keep("pipeline.closure-cleaner-level", "RECURSIVE")

    def disable_closure_cleaner(self) -> Self:
        """Keeps that closures are not cleaned."""
        return self._keep("pipeline.closure-cleaner-level", "NONE")

    def is_closure_cleaner_enabled(self) -> bool:
        """The value that was set."""
        return str(self._kept("pipeline.closure-cleaner-level")).upper() != "NONE"

    def enable_force_kryo(self) -> Self:
        """Keeps that Kryo is forced."""
        return self._keep("pipeline.force-kryo", True)

    def disable_force_kryo(self) -> Self:
        """Keeps that Kryo is not forced."""
        return self._keep("pipeline.force-kryo", False)

    def is_force_kryo_enabled(self) -> bool:
        """The value that was set."""
        return bool(self._kept("pipeline.force-kryo"))

    def enable_force_avro(self) -> Self:
        """Keeps that Avro is forced."""
        return self._keep("pipeline.force-avro", True)

    def disable_force_avro(self) -> Self:
        """Keeps that Avro is not forced."""
        return self._keep("pipeline.force-avro", False)

    def is_force_avro_enabled(self) -> bool:
        """The value that was set."""
        return bool(self._kept("pipeline.force-avro"))

    def enable_generic_types(self) -> Self:
        """Keeps that generic types are allowed."""
        return self._keep("pipeline.generic-types", True)

    def disable_generic_types(self) -> Self:
        """Keeps that generic types are not allowed."""
        return self._keep("pipeline.generic-types", False)

    def has_generic_types_disabled(self) -> bool:
        """The value that was set."""
        return not self._kept("pipeline.generic-types")

    def enable_object_reuse(self) -> Self:
        """Keeps that objects are reused."""
        return self._keep("pipeline.object-reuse", True)

    def disable_object_reuse(self) -> Self:
        """Keeps that objects are not reused."""
        return self._keep("pipeline.object-reuse", False)

    def is_object_reuse_enabled(self) -> bool:
        """The value that was set."""
        return bool(self._kept("pipeline.object-reuse"))

    def enable_sysout_logging(self) -> Self:
        """Keeps that progress is printed."""
        return self._keep("enable_sysout_logging", True)

    def disable_sysout_logging(self) -> Self:
        """Keeps that progress is not printed."""
        return self._keep("enable_sysout_logging", False)

    def is_sysout_logging_enabled(self) -> bool:
        """The value that was set."""
        return bool(self._kept("enable_sysout_logging"))

    def disable_auto_type_registration(self) -> Self:
        """Keeps that types are not registered automatically."""
        return self._keep("pipeline.auto-type-registration", False)

    def is_auto_type_registration_disabled(self) -> bool:
        """The value that was set."""
        return not self._kept("pipeline.auto-type-registration")

    def is_use_snapshot_compression(self) -> bool:
        """The value that was set."""
        return bool(self._kept("execution.checkpointing.snapshot-compression"))

    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> Self:
        """Keeps whether snapshots are compressed."""
        key = "execution.checkpointing.snapshot-compression"
        return self._keep(key, bool(use_snapshot_compression))

    def add_default_kryo_serializer(self, type_class_name: str, serializer_class_name: str) -> Self:
        """Keeps the default Kryo serializer of a class."""
        return self._add_pair(
            "pipeline.default-kryo-serializers", type_class_name, serializer_class_name
        )

    def get_default_kryo_serializer_classes(self) -> dict[str, str]:
        """The serializers that were added, by class."""
        return dict(self._kept("pipeline.default-kryo-serializers"))

    def register_type_with_kryo_serializer(
        self, type_class_name: str, serializer_class_name: str
    ) -> Self:
        """Keeps the Kryo serializer of a class."""
        return self._add_pair(
            "register_type_with_kryo_serializer",
            type_class_name,
            serializer_class_name,
        )

    def get_registered_types_with_kryo_serializer_classes(self) -> dict[str, str]:
        """The serializers that were registered, by class."""
        return dict(self._kept("register_type_with_kryo_serializer"))

    def register_pojo_type(self, type_class_name: str) -> Self:
        """Keeps a class for the POJO serializer."""
        return self._add_name("pipeline.registered-pojo-types", type_class_name)

    def get_registered_pojo_types(self) -> list[str]:
        """The classes that were registered."""
        return list(self._kept("pipeline.registered-pojo-types"))

    def register_kryo_type(self, type_class_name: str) -> Self:
        """Keeps a class for the Kryo serializer."""
        return self._add_name("pipeline.registered-kryo-types", type_class_name)

    def get_registered_kryo_types(self) -> list[str]:
        """The classes that were registered."""
        return list(self._kept("pipeline.registered-kryo-types"))

    def _add_pair(self, key: str, name: str, value: str) -> Self:
        return self._keep(key, {**dict(self._kept(key)), str(name): str(value)})

    def _add_name(self, key: str, name: str) -> Self:
        return self._keep(key, tuple(dict.fromkeys((*self._kept(key), str(name)))))
