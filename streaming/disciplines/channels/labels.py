"""The table `labels` of a channel pipeline: linear, cyclic or custom."""

from __future__ import annotations

import re
from collections.abc import Callable
from pkgutil import resolve_name
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import BeforeValidator, Field, PlainValidator, field_validator, model_validator

from sequencer.custom_labels import CustomLabels
from sequencer.labels import LABEL_MAX, CyclicLabels, Labels, LinearLabels
from streaming.settings.table import Number, Table
from streaming.settings.values import Duration, fault

FIRST_SEEN = "first-seen"


def _start(value: Any) -> int | str:
    if value == FIRST_SEEN:
        return FIRST_SEEN
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f'must be a whole number, without quotes, or "{FIRST_SEEN}"')  # noqa: TRY004  (what a user wrote is wrong, not a call of ours)
    if not 0 <= value <= LABEL_MAX:
        raise ValueError(f"must be {'0 or more' if value < 0 else f'{LABEL_MAX} or less'}")
    return value


class Linear(Table):
    """Labels start, start + step, …

    With ``start`` "first-seen" they are multiples of ``step``, and a channel begins with the lowest
    one that came within ``settle``.
    """

    kind: Literal["linear"] = "linear"
    start: Annotated[int | str, PlainValidator(_start)] = 0
    step: Annotated[Number, Field(ge=1, le=LABEL_MAX)] = 1
    settle: Duration | None = None

    @model_validator(mode="before")
    @classmethod
    def _default_settle(cls, values: Any) -> Any:
        is_open = isinstance(values, dict) and values.get("start") == FIRST_SEEN
        return {"settle": "2 s", **values} if is_open else values

    @model_validator(mode="after")
    def _settle_fits(self) -> Linear:
        if self.settle is not None and self.start != FIRST_SEEN:
            raise fault(f'has no meaning without start = "{FIRST_SEEN}"; leave it out', "settle")
        return self

    def sequence(self) -> Labels:
        """The label sequence."""
        return LinearLabels(0 if isinstance(self.start, str) else self.start, self.step)


def _not_open(value: Any) -> Any:
    if value == FIRST_SEEN:
        raise ValueError("no label of a cycle is the lowest; write the one that comes first")
    return value


class Cyclic(Table):
    """The same modulo a cycle."""

    kind: Literal["cyclic"]
    start: Annotated[Number, Field(ge=0), BeforeValidator(_not_open)] = 0
    step: Annotated[Number, Field(ge=1)] = 1
    modulus: Annotated[Number, Field(ge=4, le=2**62)]

    @model_validator(mode="after")
    def _possible(self) -> Cyclic:
        self.sequence()
        return self

    def sequence(self) -> Labels:
        """The label sequence."""
        return CyclicLabels(self.modulus, self.start, self.step)


class Custom(Table):
    """Labels made by a function of the user's.

    ``cycle``: after how many labels the sequence comes back to its first; one of at most 100,000
    is found without it.
    """

    kind: Literal["custom"]
    initial: Annotated[str, Field(min_length=1)]
    next: str
    cycle: Annotated[Number, Field(ge=4, le=2**62)] | None = None

    @field_validator("next")
    @classmethod
    def _names_a_function(cls, value: str) -> str:
        if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", value):
            raise ValueError(f'{value!r} names no function; write "package.module:function"')
        return value

    def sequence(self) -> Labels:
        """The label sequence; ValueError where the function is not to be had or makes no labels.

        Imports the user's module, and asks the function for labels.
        """
        function = self._function()
        try:
            return CustomLabels(self.initial, function, self.cycle)
        except Exception as error:
            raise ValueError(f"{self.next} does not make labels: {_cause(error)}") from error

    def _function(self) -> Callable[[str], str]:
        try:
            function = resolve_name(self.next)
        except (Exception, SystemExit) as error:  # whatever the user's module does when imported
            raise ValueError(
                f"{self.next} cannot be imported ({_cause(error)}); write package.module:function, "
                "importable where the service runs (PYTHONPATH)"
            ) from error
        if not callable(function):
            raise ValueError(  # noqa: TRY004  (what a user wrote is wrong, not a call of ours)
                f"{self.next} is {type(function).__name__}, no function; name one that takes a "
                "label and gives the next"
            )
        return function  # type: ignore[no-any-return]


AnyLabels: TypeAlias = Linear | Cyclic | Custom
LABEL_KINDS = tuple(
    str(get_args(table.model_fields["kind"].annotation)[0]) for table in get_args(AnyLabels)
)
"""What users write for them."""


def _cause(error: BaseException) -> str:
    text = str(error)
    return (
        text if isinstance(error, (ImportError, ValueError)) else f"{type(error).__name__}: {text}"
    )
