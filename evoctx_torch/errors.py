"""The two ways in which something ends: a call that cannot be carried out, and one row that fails alone."""

from __future__ import annotations


class UsageError(Exception):
    """A wrong call, file, option or index. The command line prints it in one line and exits with code 2.

    The message says what was expected, what was found, and what to change.
    """


class MissingExtra(UsageError):
    """An optional dependency is absent; the message holds the command that installs it."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {package}, which is not installed: pip install 'evoctx-torch[{extra}]'")
