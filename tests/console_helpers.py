"""The console of a configuration, served in this process, for tests."""

from __future__ import annotations

import base64
import http.client
import re
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import uvicorn

from streaming.arrow.ipc import to_state
from streaming.config import load_config
from streaming.console.access import Access
from streaming.console.app import Console
from streaming.console.desk import Desk
from streaming.console.history import Recorder
from streaming.console.listening import bound
from streaming.console.prometheus import Prometheus
from streaming.disciplines.channels.waiting import SCHEMA


class Asking:
    """Asks one console, keeps its cookie, and never follows a redirection."""

    def __init__(self, port):
        self.port = port
        self.cookie = ""

    def __call__(self, path, form=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            given = {"Cookie": self.cookie, **headers}
            body = None if form is None else urllib.parse.urlencode(form)
            connection.request("GET" if form is None else "POST", path, body, given)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        if cookie := answer.headers["Set-Cookie"]:
            self.cookie = cookie.partition(";")[0]
        self.answer = answer
        return answer.status, text

    def form_token(self):
        return re.search(r'name="form_token" value="([^"]+)"', self("/")[1])[1]


@contextmanager
def serving(config: Path, access: Access, prometheus: Prometheus | None = None) -> Iterator[int]:
    """Serve the console; its port."""
    recorder, listener = Recorder(load_config(config)), bound(("127.0.0.1", 0))
    app = Console(Desk(recorder, access, prometheus)).app(frozenset({"127.0.0.1"}))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    recorder.start()
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        recorder.stop()
        thread.join(30)
        listener.close()


def code_of(key: bytes) -> str:
    return base64.urlsafe_b64encode(key).decode()


def told(*rows: tuple) -> str:
    """What a shard tells of its channels: key, epoch, next position, since (ms), how many held.

    Nothing is asked for.
    """
    columns = zip(*((*row, 0, 0) for row in rows), strict=True)
    batch = pa.RecordBatch.from_arrays(
        [pa.array(each, field.type) for each, field in zip(columns, SCHEMA, strict=True)],
        schema=SCHEMA,
    )
    return base64.b64encode(to_state(batch)).decode()
