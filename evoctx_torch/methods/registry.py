"""Methods by name: ours, and those of other packages, each loaded when it is asked for.

A package registers its methods through entry points, name and object:

    [project.entry-points."evoctx_torch.methods"]
    two-hop = "my_package.two_hop:TWO_HOP"
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points

from evoctx_torch.errors import UsageError
from evoctx_torch.methods.base import Method

GROUP = "evoctx_torch.methods"


class Methods(Mapping[str, Method]):
    """Ours first, then those of installed packages. Listing names imports no other package.

    What is wrong with another package's method is said when that method is asked for, and stops nothing else.
    """

    def __init__(self, own: Iterable[Method]) -> None:
        self.own = {method.name: method for method in own}

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self.own, *sorted(self.others())]))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return name in self.own or name in self.others()

    def __getitem__(self, name: str) -> Method:
        """The method of that name. Raises `UsageError` where it cannot be used, `KeyError` where nobody has it."""
        found = self.others().get(name, [])
        if len(found) + (name in self.own) > 1:
            packages = [*(["evoctx_torch"] if name in self.own else []), *map(package, found)]
            raise UsageError(f"the method {name!r} is registered by {' and '.join(packages)}: rename or uninstall one of them")
        return load(found[0]) if found else self.own[name]

    @staticmethod
    def others() -> dict[str, list[EntryPoint]]:
        """The entry points of installed packages by name; a list, since two packages may take the same one."""
        found: dict[str, list[EntryPoint]] = {}
        for entry in entry_points(group=GROUP):
            found.setdefault(entry.name, []).append(entry)
        return found


def load(entry: EntryPoint) -> Method:
    """Import another package's method. Raises `UsageError` that names the package and what is wrong with it."""
    where = f"the method {entry.name!r} of {package(entry)} ({entry.value})"
    try:
        found = entry.load()
    except Exception as error:  # another package's import can fail in any way that Python can
        raise UsageError(f"{where} cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(found, Method):
        raise UsageError(f"{where} is {found!r}; expected an evoctx_torch.methods.Method")
    if found.name != entry.name:
        raise UsageError(f"{where} calls itself {found.name!r}; expected the name of its entry point")
    return found


def package(entry: EntryPoint) -> str:
    """The package that an entry point belongs to."""
    return entry.dist.name if entry.dist is not None else entry.module
