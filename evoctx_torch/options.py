"""Typed options: one dataclass field is the Python argument, the command line option, its help and its check."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, get_args, get_type_hints

from evoctx_torch.errors import UsageError

WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
TYPES = {int: int, float: (int, float), bool: bool, str: os.PathLike}  # what a file or Python may give beside text, for each type


def option(
    default: Any,
    help: str,
    *,
    unit: str = "",
    paper: str = "",
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    choices: Sequence[str] = (),
    placement: bool = False,
    file: bool = False,
    blank: bool = False,
) -> Any:
    """A dataclass field with what the command line and the check need.

    `paper`: the papers' value, shown in --help. `low`/`high` are inclusive bounds, `above` an exclusive one.
    `placement`: the option cannot change an answer (batch size, device placement), so a resumed run may change it.
    `file`: it names a file that the run reads; a run's record holds its digest, so that a changed file is another run.
    `blank`: text that may be empty.
    """
    return dataclasses.field(
        default=default,
        metadata={"help": help, "unit": unit, "paper": paper, "low": low, "high": high, "above": above,
                  "choices": tuple(choices), "placement": placement, "file": file, "blank": blank},
    )


def flag(name: str) -> str:
    """`top_k` -> `--top-k`."""
    return "--" + name.replace("_", "-")


def check(options: Any) -> None:
    """Raise `UsageError` for the first value outside its bounds or choices; names the option as the command line does.

    Options that do not go together are refused by a method `check` of the dataclass, where it has one.
    """
    for field in dataclasses.fields(options):
        value, meta = getattr(options, field.name), field.metadata
        if value is None or not meta:
            continue
        name = flag(field.name)
        if meta["choices"] and value not in meta["choices"]:
            raise UsageError(f"{name} is {value!r}; expected one of {', '.join(map(str, meta['choices']))}")
        for bound, wrong, words in (
            (meta["low"], lambda v, b: not v >= b, "at least"),
            (meta["high"], lambda v, b: not v <= b, "at most"),
            (meta["above"], lambda v, b: not v > b, "greater than"),
        ):
            if bound is not None and wrong(value, bound):
                raise UsageError(f"{name} is {value}; expected {words} {bound}")
    if hasattr(options, "check"):
        options.check()


def typed(cls: type, values: Mapping[str, Any]) -> Any:
    """An instance of the dataclass `cls` from those of `values` that are its fields, converted and checked.

    Values come from the command line (strings) or from a configuration file (typed). Raises `UsageError`.
    """
    hints = get_type_hints(cls)
    given = {f.name: convert(f.name, hints[f.name], values[f.name], f.metadata.get("blank", False)) for f in dataclasses.fields(cls) if f.name in values}
    options = cls(**given)
    check(options)
    return options


def convert(name: str, hint: Any, value: Any, blank: bool = False) -> Any:
    """`value` as the type that a field's annotation names; None stays None where the annotation allows it."""
    kinds = set(get_args(hint)) or {hint}
    if value is None and type(None) in kinds:
        return None
    (kind,) = kinds - {type(None)}
    # For Python True is the number 1 and 1 == True; for a user they are different things.
    fits = isinstance(value, (str, TYPES[kind])) and (kind is bool or not isinstance(value, bool))
    try:
        if not fits:
            raise ValueError
        found = {True: True, False: False, "true": True, "false": False}[value] if kind is bool else kind(value)
    except (KeyError, ValueError, OverflowError):
        raise UsageError(f"{flag(name)} is {value!r}; expected {WORDS[kind]}") from None
    if kind is float and not math.isfinite(found):
        raise UsageError(f"{flag(name)} is {value}; expected a finite number")
    if kind is str and not blank and not found.strip():
        raise UsageError(f"{flag(name)} is blank; expected text, or leave it out")
    return found
