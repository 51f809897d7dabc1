"""argparse from typed dataclasses: one option a field, its help from the field's metadata, wrong calls in one line."""

from __future__ import annotations

import argparse
import dataclasses
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn, get_args, get_type_hints

from evoctx_torch.errors import UsageError
from evoctx_torch.options import flag

NO_DEFAULTS: Mapping[str, Any] = MappingProxyType({})


class Parser(argparse.ArgumentParser):
    """A parser without abbreviations that raises `UsageError` instead of printing a screenful.

    `fill` adds its arguments when it is first used: what is not asked for costs nothing and cannot fail.
    """

    def __init__(self, *args: Any, fill: Callable[[Parser], None] | None = None, **how: Any) -> None:
        width = max(80, min(shutil.get_terminal_size().columns, 200))
        how.setdefault("formatter_class", lambda prog: argparse.HelpFormatter(prog, max_help_position=36, width=width))
        super().__init__(*args, allow_abbrev=False, **how)
        self._fill = fill

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None) -> Any:
        """As argparse's, after `fill`."""
        fill, self._fill = self._fill, None
        if fill is not None:
            fill(self)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see `{self.prog} --help`)")


def add_options(
    parser: Parser, cls: type, title: str, *, prefix: str = "", inherit: str | None = None, skip: Collection[str] = (),
    defaults: Mapping[str, Any] = NO_DEFAULTS,
) -> None:
    """One option for every field of the dataclass `cls`. Options that are not given are absent from the namespace.

    Values stay text here; `options.typed` converts and checks them, for files and command line alike. `prefix` makes
    a role's options (`--decider-dtype`), whose default is `inherit`'s. `defaults` are a method's own, told in the help.
    """
    group = parser.add_argument_group(title)
    hints = get_type_hints(cls)
    for field in dataclasses.fields(cls):
        if field.name in skip:
            continue
        name = f"{prefix}_{field.name}" if prefix else field.name
        kinds = set(get_args(hints[field.name])) or {hints[field.name]}
        how: dict[str, Any] = {"dest": name, "default": argparse.SUPPRESS, "help": help_text(field, inherit, defaults.get(field.name))}
        if bool in kinds:
            group.add_argument(flag(name), action=argparse.BooleanOptionalAction, **how)
        else:
            group.add_argument(flag(name), metavar="|".join(field.metadata["choices"]) or metavar(kinds), **how)


def metavar(kinds: set[type]) -> str:
    """What stands for a value in --help."""
    return "N" if int in kinds else "X" if float in kinds else "TEXT"


def help_text(field: dataclasses.Field[Any], inherit: str | None, own: Any = None) -> str:
    """Help, unit, default and the paper's value of an option."""
    meta = field.metadata
    facts = [f"unit: {meta['unit']}"] if meta["unit"] else []
    if own is not None:
        facts.append(f"default: {own}")
    elif inherit is not None:
        facts.append(f"default: the {inherit}'s")
    elif field.default is not None:
        facts.append(f"default: {str(field.default).lower() if isinstance(field.default, bool) else field.default}")
    if meta["paper"]:
        facts.append("open in the paper" if meta["paper"] == "open" else f"paper: {meta['paper']}")
    return f"{meta['help']} [{'; '.join(facts)}]".replace("%", "%%") if facts else meta["help"].replace("%", "%%")
