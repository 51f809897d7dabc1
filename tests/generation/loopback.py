"""A small OpenAI-compatible server on loopback: replies what a function says and records every request."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

USAGE = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}


@dataclass
class Asked:
    """One POST: `number` counts from 1 the requests with this prompt."""

    path: str
    headers: Message
    body: dict[str, Any]
    prompt: str
    number: int


@dataclass
class Reply:
    """What goes over the wire. A `dict` body is sent as JSON, bytes as HTML; `hang_up` closes the connection instead."""

    body: dict[str, Any] | bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    hang_up: bool = False


def completed(text: str | None, finish: str | None = "stop", usage: Any = USAGE, chat: bool = True, message: dict | None = None, **choice: Any) -> dict:
    """A completion as servers send it; `usage=None` leaves the field out."""
    content = {"message": {"role": "assistant", "content": text, **(message or {})}} if chat else {"text": text}
    body = {"id": "x", "object": "completion", "created": 0, "model": "m", "choices": [{"index": 0, "finish_reason": finish, **content, **choice}]}
    return body if usage is None else {**body, "usage": usage}


class Loopback:
    """`reply(asked) -> Reply | str`; a string is a finished completion of the endpoint that was asked.

    `models` is what GET /models answers. `peak` is the most requests that were under way together.
    """

    def __init__(self, reply: Callable[[Asked], Reply | str], models: Reply | None = None) -> None:
        self.requests: list[Asked] = []
        self.gets: list[str] = []
        self.peak = self._now = 0
        self._numbers: Counter[str] = Counter()
        self._lock, self._over = threading.Lock(), threading.Event()
        outer = self
        listed = models or Reply({"object": "list", "data": [{"id": "m", "object": "model"}]})

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *args: Any) -> None:
                pass

            def do_GET(self) -> None:
                outer.gets.append(self.path)
                self._send(listed if self.path == "/v1/models" else Reply({"error": {"message": "no such path"}}, 404))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                asked = outer._record(self.path, self.headers, body)
                try:
                    said = reply(asked)
                    sent = Reply(completed(said, chat="messages" in body)) if isinstance(said, str) else said
                    outer._over.wait(sent.delay_s)
                finally:
                    with outer._lock:
                        outer._now -= 1
                self._send(sent)

            def _send(self, sent: Reply) -> None:
                if sent.hang_up:
                    self.close_connection = True
                    return
                html = isinstance(sent.body, bytes)
                content = sent.body if html else json.dumps(sent.body).encode()
                self.send_response(sent.status)
                for name, value in {"Content-Type": "text/html" if html else "application/json", "Content-Length": str(len(content)), **sent.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

        class Server(ThreadingHTTPServer):
            request_queue_size = 128
            daemon_threads = True

            def handle_error(self, *args: Any) -> None:
                pass  # a client that went away is part of the tests

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def _record(self, path: str, headers: Message, body: dict[str, Any]) -> Asked:
        prompt = body["prompt"] if "prompt" in body else body["messages"][-1]["content"]
        with self._lock:
            self._now += 1
            self.peak = max(self.peak, self._now)
            self._numbers[prompt] += 1
            asked = Asked(path, headers, body, prompt, self._numbers[prompt])
            self.requests.append(asked)
        return asked

    def tries(self, prompt: str) -> int:
        return self._numbers[prompt]

    def __enter__(self) -> Loopback:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()
