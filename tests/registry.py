"""A schema registry in a process of its own: the part of the REST interface that clients use.

`python -m tests.registry FILE PORT [USER:PASSWORD]` serves the schemas in FILE, which it keeps: so it
may be killed, and come back. It prints its port.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.warm import ROOT, python_path

END_SECONDS_MAX = 30


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    file: Path
    authorization = ""

    def do_GET(self):
        subjects = self.subjects()
        match [urllib.parse.unquote(each) for each in self.path.partition("?")[0].split("/")[1:]]:
            case ["schemas", "types"]:
                self.answer(200, ["AVRO", "PROTOBUF", "JSON"])
            case ["schemas", "ids", number]:
                every = [each for versions in subjects.values() for each in versions]
                found = [each for each in every if each["id"] == int(number)]
                self.answer_one(found, 40403, "Schema not found")
            case ["subjects", subject, "versions", number]:
                found = subjects.get(subject, [])[int(number) - 1 :][:1]
                if "deleted=true" not in self.path:
                    found = [each for each in found if not each.get("deleted")]
                self.answer_one(found, 40402, "No version")
            case _:
                self.answer(404, {"error_code": 404, "message": "HTTP 404 Not Found"})

    def do_POST(self):
        subjects = self.subjects()
        subject = urllib.parse.unquote(self.path.split("/")[2])
        schema = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        number = 1 + sum(map(len, subjects.values()))
        subjects.setdefault(subject, []).append({**schema, "id": schema.get("id", number)})
        self.file.write_text(json.dumps(subjects))
        self.answer(200, {"id": subjects[subject][-1]["id"]})

    def subjects(self):
        return json.loads(self.file.read_text()) if self.file.exists() else {}

    def answer_one(self, found, code, message):
        if found:
            self.answer(200, {name: each for name, each in found[0].items() if name != "id"})
        else:
            self.answer(404, {"error_code": code, "message": message})

    def answer(self, status, content):
        if self.authorization and self.headers["Authorization"] != self.authorization:
            status, content = 401, {"error_code": 40101, "message": "Unauthorized"}
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class TestRegistry:
    """The server as tests see it; a context manager."""

    __test__ = False

    def __init__(self, folder, user=""):
        self.file, self.user, self.port, self.process = folder / "schemas.json", user, 0, None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        words = [sys.executable, "-m", "tests.registry", self.file, str(self.port), self.user]
        self.process = subprocess.Popen(
            words, stdout=subprocess.PIPE, cwd=ROOT, env={"PYTHONPATH": python_path()}
        )
        self.port = int(self.process.stdout.readline())

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait(END_SECONDS_MAX)
            self.process.stdout.close()
            self.process = None

    def register(self, subject, schema, **more):
        """Register a schema; its id."""
        body = json.dumps(
            {"schema": schema if isinstance(schema, str) else json.dumps(schema), **more}
        )
        address = f"{self.url}/subjects/{urllib.parse.quote(subject, safe='')}/versions"
        asked = urllib.request.Request(address, body.encode(), method="POST")  # noqa: S310
        if self.user:
            asked.add_header("Authorization", basic(self.user))
        with urllib.request.urlopen(asked, timeout=END_SECONDS_MAX) as answer:  # noqa: S310
            return json.load(answer)["id"]


def basic(user):
    return f"Basic {base64.b64encode(user.encode()).decode()}"


def serve(file, port, user):
    Handler.file = Path(file)
    Handler.authorization = basic(user) if user else ""
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), sys.argv[3])
