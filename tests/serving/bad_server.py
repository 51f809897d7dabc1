"""A retrieval server on loopback that says what a function tells it to, and records what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class BadServer:
    """`reply(body, number) -> (status, body, headers)`; bytes are sent as HTML, None closes the connection, "stall" sends nothing.

    `number` counts the requests from 1.
    """

    def __init__(self, reply: Callable[[dict, int], Any]) -> None:
        self.asked: list[dict] = []
        self.headers: list[dict[str, str]] = []
        over, outer = threading.Event(), self
        self._over = over

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                self._send(404, {"detail": "Not Found"}, {})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked.append(body)
                outer.headers.append(dict(self.headers))
                said = reply(body, len(outer.asked))
                if said is None or said == "stall":
                    if said == "stall":
                        over.wait(20)
                    self.close_connection = True
                    return
                self._send(*said)

            def _send(self, status: int, body: Any, headers: dict[str, str]) -> None:
                content = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                kind = "text/html" if isinstance(body, bytes) else "application/json"
                for name, value in {"Content-Type": kind, "Content-Length": str(len(content)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> BadServer:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()


def documents(body: dict, count: int | None = None, scores: bool = True, ids: Callable[[int], object] = "p{}".format) -> dict:
    """A sound reply: the first passages of an endless corpus, one a document, as foreign servers write them."""
    rows = [[{"id": ids(i), "contents": f'"T{i}"\ntext of {query}'} for i in range(body["topk"] if count is None else count)] for query in body["queries"]]
    return {"result": [[{"document": d, "score": 1 - i / 100} for i, d in enumerate(row)] for row in rows] if scores else rows}


def sound(body: dict, number: int) -> tuple[int, dict, dict]:
    return 200, documents(body), {}
