"""An identity provider's endpoint for tokens (RFC 6749, section 4.4)."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar
from urllib.parse import parse_qs


class Endpoint(BaseHTTPRequestHandler):
    """Gives numbered tokens; keeps what it was asked."""

    asked: ClassVar[list] = []
    life = 3600
    answer = None
    status = 200

    def do_POST(self):
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.asked.append((self.headers["Authorization"], form))
        told = {"access_token": f"token {len(self.asked)}", "expires_in": self.life}
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(self.answer or json.dumps(told).encode())

    def log_message(self, *_):
        pass


@contextmanager
def token_endpoint():
    """Yield its address, and what it is asked and answers (a class like `Endpoint`)."""
    handler = type("Fresh", (Endpoint,), {"asked": []})
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/token", handler
    finally:
        server.shutdown()
        thread.join(30)
        server.server_close()
