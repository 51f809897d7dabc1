"""The process: a socket, a token from the environment, and an end that answers what was begun."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from ipaddress import ip_address
from typing import Any

from evoctx_torch.errors import MissingExtra, UsageError
from evoctx_torch.operations import Executor
from evoctx_torch.serving.app import make_app
from evoctx_torch.serving.options import ServeOptions

try:
    import uvicorn
except ImportError as error:
    raise MissingExtra("uvicorn", "serve", "evoctx serve") from error

IDLE_S = 30  # how long a connection may wait for its next request


def read_token(name: str | None) -> str | None:
    """The token in the environment variable `name`; None for None. Raises `UsageError`, without showing it, if there is none."""
    if name is None:
        return None
    token = os.environ.get(name, "").strip()
    if not token:
        raise UsageError(f"--token-env {name}: that environment variable is not set or blank; expected the token in it")
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise UsageError(f"--token-env {name}: the token holds characters that no header can carry; expected printable ASCII without blanks")
    return token


def listen(host: str, port: int) -> socket.socket:
    """A socket that is bound. Raises `UsageError` if the address is taken or not this machine's."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
        except OSError:
            bound.close()
            raise
    except OSError as error:
        raise UsageError(f"cannot listen on {host} port {port}: {error.strerror}; expected a free port of this machine (--port, --host)") from None
    return bound


def make_server(retriever: Executor, options: ServeOptions, token: str | None = None, about: Mapping[str, Any] | None = None) -> uvicorn.Server:
    """The server of an application, not yet running."""
    return uvicorn.Server(uvicorn.Config(
        make_app(retriever, options, token, about), log_config=None, access_log=False, lifespan="on", timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=max(1, round(options.drain)), backlog=2048, server_header=False,
    ))


def serve(load: Callable[[], tuple[Executor, Mapping[str, Any]]], options: ServeOptions) -> None:
    """Serve what `load` gives (a retriever, and what GET /health says of it) until SIGINT or SIGTERM; then finish what is begun.

    Port and token are checked before anything is loaded. Raises `UsageError`.
    """
    token = read_token(options.token_env)
    with closing(listen(options.host, options.port)) as bound:
        host, port = bound.getsockname()[:2]
        if token is None and not ip_address(host.partition("%")[0]).is_loopback:
            print(f"evoctx: warning: whoever reaches {host} may search this index: add --token-env NAME, or listen on 127.0.0.1", file=sys.stderr)
        retriever, about = load()
        server = make_server(retriever, options, token, about)
        shown = f"[{host}]" if ":" in host else host
        with handled(server):
            print(f"evoctx: serving {about.get('passages', '?')} passages on http://{shown}:{port}/retrieve", file=sys.stderr, flush=True)
            server.run(sockets=[bound])


@contextmanager
def handled(server: uvicorn.Server) -> Iterator[None]:
    """SIGINT and SIGTERM only ask the server to end. uvicorn catches them itself while it runs, and raises them once more when it
    has ended: that must not end the process with an error; and one that comes before uvicorn listens to them must not be lost."""
    before = {number: signal.signal(number, lambda *_: setattr(server, "should_exit", True)) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
