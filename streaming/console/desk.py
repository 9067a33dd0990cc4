"""What all pages share: figures, who may act, templates, and turns at reading topics."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from streaming.console import values
from streaming.console.access import COOKIE, Access, Session
from streaming.console.groups_now import GroupsNow
from streaming.console.history import Recorder
from streaming.console.prometheus import Prometheus

HERE = Path(__file__).parent
TOPICS_READ_AT_ONCE = 4
WAIT_SECONDS_MAX = 10


class Desk:
    """Request threads share it; ``prometheus``: where history is asked for, None for nowhere."""

    def __init__(
        self, recorder: Recorder, access: Access, prometheus: Prometheus | None = None
    ) -> None:
        self.recorder = recorder
        self.config = recorder.config
        self.access = access
        self.prometheus = prometheus
        self.groups = GroupsNow(self.config)
        self.pictures: dict[str, tuple[str, str]] = {}
        """Of each pipeline of groups the picture that was drawn last, behind its version."""
        self._turns = threading.BoundedSemaphore(TOPICS_READ_AT_ONCE)
        self._templates = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= {
            "when": values.when,
            "key": values.key_shown,
            "picture": Markup,
            "payload": values.payload,
        }
        self._templates.globals |= {
            "link": values.link,
            "code_of": values.encoded_key,
            "headers_of": values.headers,
        }

    def session(self, request: Request) -> Session | None:
        """Return the user's name; None where nobody is logged in."""
        return self.access.session(request.headers, request.cookies.get(COOKIE))

    def name(self, request: Request, *disciplines: str) -> str:
        """Return the pipeline of a page. HTTPException where it is none, or of another kind."""
        name = str(request.path_params["name"])
        pipeline = self.config.pipelines.get(name)
        if pipeline is None or (disciplines and pipeline.discipline not in disciplines):
            raise HTTPException(404, "There is no such pipeline, or it has no such page.")
        return name

    @contextmanager
    def turn(self) -> Iterator[None]:
        """One of few places for those who read topics, so that Kafka has little to do for us."""
        if not self._turns.acquire(timeout=WAIT_SECONDS_MAX):
            raise HTTPException(503, "Others are reading topics just now; try again.")
        try:
            yield
        finally:
            self._turns.release()

    def page(self, request: Request, template: str, *, status: int = 200, **shown: Any) -> Response:
        """Return a template as an answer; of one that refreshes itself its live part, if asked."""
        name = request.path_params.get("name")
        context = {
            "disciplines": {
                each: pipeline.discipline for each, pipeline in self.config.pipelines.items()
            },
            "service": self.config.service.name,
            "session": self.session(request),
            "can_act": self.access.can_act,
            "needs_token": self.access.token is not None,
            "name": name if name in self.config.pipelines else None,
            "path": request.url.path,
            "now": time.time(),
            **shown,
        }
        page = self._templates.get_template(template)
        if "x-fragment" in request.headers and "live" in page.blocks:
            return HTMLResponse("".join(page.blocks["live"](page.new_context(context))), status)
        return HTMLResponse(page.render(context), status)
