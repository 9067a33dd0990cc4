"""moto's S3 server, which refuses writes of some objects for a while: run by moto's Python.

Arguments: host, port, a folder. While its file `refused` has a pattern, no object whose path it
matches is written, and their paths are lines of `refusals`.
"""

import re
import signal
import sys
from pathlib import Path

from moto import server

DENIED = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"


class Refusing:
    """What stands before moto's own application."""

    def __init__(self, app, folder):
        self.app, self.folder = app, folder

    def __call__(self, environment, start_response):
        path, pattern = environment["PATH_INFO"], self.folder / "refused"
        if environment["REQUEST_METHOD"] != "PUT" or not pattern.exists():
            return self.app(environment, start_response)
        if not re.search(pattern.read_text(), path):
            return self.app(environment, start_response)
        environment["wsgi.input"].read(int(environment.get("CONTENT_LENGTH") or 0))
        with (self.folder / "refusals").open("a") as refusals:
            refusals.write(f"{path}\n")
        start_response("403 Forbidden", [("Content-Type", "application/xml")])
        return [DENIED]


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    moto = server.DomainDispatcherApplication(server.create_backend_app)
    app = Refusing(moto, Path(sys.argv[3]))
    handler = server.MotoRequestHandler
    server.run_simple(sys.argv[1], int(sys.argv[2]), app, threaded=True, request_handler=handler)
