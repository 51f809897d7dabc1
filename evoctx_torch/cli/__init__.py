"""The command line `evoctx`: argument parsing and printing, nothing else. `--help` imports no torch."""

from __future__ import annotations

import errno
import logging
import os
import sys
import warnings
from collections.abc import Sequence

from evoctx_torch.cli import (
    compare,
    data,
    demo,
    evaluate,
    index,
    inspect,
    judge,
    memory,
    profile,
    reproduce,
    score,
    search,
    serve,
)
from evoctx_torch.cli.arguments import Parser
from evoctx_torch.errors import UsageError

COMMANDS = (demo, evaluate, data, index, search, serve, score, inspect, judge, compare, memory, profile, reproduce)


def build_parser() -> Parser:
    """The parser with all sub-commands."""
    parser = Parser("evoctx", description="Thousands of retrieve-or-think question-answering loops in lockstep.",
                    epilog="`evoctx COMMAND --help` explains a command, `evoctx eval METHOD --help` a method's options.")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Parser)
    for module in COMMANDS:
        module.add(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Exit codes: 0 done, 2 a call that cannot be carried out (one line says why), 130 Ctrl-C."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # else a warning whenever a process forks
    # Threads that spin while they wait take the CPU from those they wait for: ten times slower beside any other process.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # ours is the only progress line
    if not sys.stderr.isatty():
        os.environ.setdefault("TQDM_DISABLE", "1")  # a library's bar is a line in a terminal and a flood in a file
    logging.basicConfig(level=logging.WARNING, format="evoctx: %(levelname)s: %(message)s")
    warnings.showwarning = lambda message, *_, **__: print(f"evoctx: warning: {message}", file=sys.stderr)
    try:
        arguments = build_parser().parse_args(readable(sys.argv[1:] if argv is None else argv))
        return arguments.run(arguments) or 0
    except UsageError as error:
        print(f"evoctx: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("evoctx: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone (`evoctx ls | head`)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:  # no check of a path sees this one coming: asking whether it exists raises already
            raise
        print(f"evoctx: {str(error.filename)[:40]}…: {error.strerror}; expected the name of a file or folder", file=sys.stderr)
        return 2


def readable(argv: Sequence[str]) -> Sequence[str]:
    """The arguments. Raises `UsageError` for one that is not UTF-8: it could be neither tokenized nor written to a run's files."""
    for argument in argv:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise UsageError(f"the argument {argument!a} is not valid UTF-8; expected UTF-8") from None
    return argv
