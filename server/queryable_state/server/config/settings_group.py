"""The base of all settings classes: the one check of values and of their relations."""

from __future__ import annotations

import copy
import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from queryable_state.server.config.parsing import choice_of
from queryable_state.server.config.setting import accepted, name_of, problem_of, setting, type_of
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Origin:
    """The place that a value came from."""

    place: str
    """`environment`, `Spark configuration`, `file /etc/job.toml, line 3`, `flag` ..."""

    key: str
    """The name of the setting there."""


@dataclass(frozen=True, kw_only=True)
class SettingsGroup:
    """Settings of one subject: base of frozen dataclasses whose fields are declared by `setting`.

    Each object is checked when it is made, also in code: an `InvalidRequestError` names the
    setting, its value, the accepted values and where the value came from. A choice may be given in
    any case, with `-` or `_`; the object has the declared spelling. A subclass checks
    relations of several fields in `check_relations`.
    """

    key_prefix: ClassVar[str] = ""
    """Begins the key of a field in errors."""

    origins: Mapping[str, Origin] = setting(default_factory=dict, derived=True, compare=False)
    """The places that values came from, by field; a default, or a value of code, has none."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            rule, value = accepted(field), getattr(self, field.name)
            if rule.choices and isinstance(value, str):
                value = choice_of(value, rule.choices)
                object.__setattr__(self, field.name, value)
            if not rule.derived:
                problem = problem_of(field, value)
                if problem:
                    raise InvalidRequestError(f"{self.named(field.name)}: {problem}")
        self.check_relations()

    def completed(self, **values: Any) -> Self:
        """A copy with fields that the program fills in, not checked again.

        A task gets settings that the driver has checked, so only what it adds could be wrong.
        """
        made = copy.copy(self)
        vars(made).update(values)
        return made

    def check_relations(self) -> None:
        """Raises InvalidRequestError for values that do not fit together; see `require`."""

    def require(self, fits: bool, names: tuple[str, ...], rule: str) -> None:
        """Raises InvalidRequestError with the values of the named fields unless they fit."""
        if not fits:
            values = " and ".join(map(self.named, names))
            raise InvalidRequestError(f"{values}: {rule}")

    def origin(self, name: str) -> Origin | None:
        """The place that the value of a field came from; None for a default or a value of code."""
        return self.origins.get(name)

    def named(self, name: str) -> str:
        """Key, value and origin of a field, for errors."""
        fields = {field.name: field for field in dataclasses.fields(self)}
        value = "(not shown)" if accepted(fields[name]).secret else repr(getattr(self, name))
        origin = self.origin(name)
        if origin is None:
            return f"{self.key_prefix}{name_of(fields[name])} is {value}"
        return f"{origin.key} is {value} ({origin.place})"

    @classmethod
    def from_settings(cls, wider: object, **others: Any) -> Self:
        """Settings with the fields that `wider` has too, also in nested groups, and `others`.

        The rest are defaults.
        """
        shared: dict[str, Any] = {}
        for field in dataclasses.fields(cls):
            kind = type_of(field)
            if issubclass(kind, SettingsGroup):
                shared[field.name] = kind.from_settings(wider)
            elif hasattr(wider, field.name):
                shared[field.name] = getattr(wider, field.name)
        names = {field.name for field in dataclasses.fields(cls)}
        if "origins" in shared:
            of_wider = shared["origins"]
            shared["origins"] = {name: of_wider[name] for name in of_wider.keys() & names}
        return cls(**shared | others)
