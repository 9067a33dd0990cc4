"""Who looks at a console (`console.py`), what they ask for, and how soon it answers."""

import base64
import contextlib
import http.client
import signal
import threading
import time

BLOCKED_OF = 100
"""One channel in so many waits for a label."""
LIMIT_SECONDS = 300
"""Whatever is waited for has come by then."""


class Looking:
    """Asks a console as browsers do; `seconds` has how long each answer took."""

    def __init__(self, port):
        self.port, self.seconds = port, {}

    def at(self, path, **headers):
        began = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            body = answer.read()
        assert answer.status == 200, (path, answer.status, body[:500])
        self.seconds.setdefault(path, []).append(time.monotonic() - began)


def views(channels):
    """The addresses of all views."""
    code = lambda text: base64.urlsafe_b64encode(text).decode()  # noqa: E731
    some = channels // 2 // BLOCKED_OF * BLOCKED_OF
    of_p = [
        "blocked",
        f"blocked?q=c{some}",
        f"channel/{code(b'c%d' % some)}",
        "disorder",
        "records",
    ]
    of_g = [
        "groups",
        "groups.svg?v=1",
        f"group/{code(b'G7')}",
        f"subscriber/{code(b's40')}",
        "records",
    ]
    return [
        "/",
        *(f"/p/p/{each}" for each in (*of_p, "events", "rejects")),
        *(f"/p/g/{each}" for each in (*of_g, "events", "rejects")),
    ]


def wait_for(port):
    deadline = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            Looking(port).at("/")
            return
        time.sleep(0.2)
    raise SystemExit("the console does not answer")


class Crowd:
    """Two people who look at a console, and may go: then it is halted, as if there was none."""

    def __init__(self, process, port):
        self.process, self.looking = process, Looking(port)
        self._stop, self._present = threading.Event(), threading.Event()
        self._busy = {path: threading.Lock() for path in ("/", "/p/p/blocked")}
        self._people = [
            threading.Thread(target=self._look, args=each) for each in self._busy.items()
        ]
        for each in self._people:
            each.start()

    def _look(self, path, busy):
        while not self._stop.wait(1):
            with busy:
                if self._present.is_set():
                    self.looking.at(path, **{"x-fragment": "1"})

    def come(self):
        self.process.send_signal(signal.SIGCONT)
        self._present.set()

    def leave(self):
        self._present.clear()
        for busy in self._busy.values():
            with busy:
                pass
        self.process.send_signal(signal.SIGSTOP)

    def end(self):
        self.come()
        self._stop.set()
        for each in self._people:
            each.join()
