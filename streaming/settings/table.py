"""A table of the configuration file."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Number = Annotated[int, Field(strict=True)]


class Table(BaseModel):
    """A table of the file: unknown keys are errors, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)
