"""The HTTP side of a server: one request at a time, text in and text out, as the chat and completion endpoints do."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer

Answer = Callable[[str, int], str]


def serve(answer: Answer, port: int) -> None:
    """Answer requests on 127.0.0.1 until the process ends. ``answer`` gets the text and how many tokens are wanted."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            wanted = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            messages = wanted.get("messages") or [{"content": wanted.get("prompt", "")}]
            tokens = wanted.get("max_tokens") or wanted.get("max_completion_tokens") or 1
            text = json.dumps({"choices": [{"text": answer(messages[-1]["content"], tokens)}]}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:
            return

    with HTTPServer(("127.0.0.1", port), Handler) as server:
        print(f"ready on port {server.server_address[1]}", flush=True)
        server.serve_forever()
