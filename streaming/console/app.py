"""The pages: which address shows what."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from streaming.console import actions, views
from streaming.console.access import COOKIE, SESSION_SECONDS, Access, Session, TooManyTries
from streaming.console.guard import Guard, form_of
from streaming.console.history import Recorder
from streaming.errors import SequencerError
from streaming.kafka.newest import at_place

HERE = Path(__file__).parent
TOPICS_READ_AT_ONCE = 4
WAIT_SECONDS_MAX = 10


class Console:
    """The pages' functions; request threads share the recorder and the access."""

    def __init__(self, recorder: Recorder, access: Access) -> None:
        self.recorder = recorder
        self.config = recorder.config
        self.access = access
        self.turns = threading.BoundedSemaphore(TOPICS_READ_AT_ONCE)
        self.pages = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.pages.filters |= {"when": views.when, "picture": Markup, "payload": views.payload}
        self.pages.globals |= {"link": views.link, "headers_of": views.headers}

    def app(self, hosts: frozenset[str]) -> ASGIApp:
        """The application."""
        pages: list[tuple[str, Callable[..., Response]]] = [
            ("/", self.overview),
            ("/p/{name}/blocked", self.blocked),
            ("/p/{name}/channel/{code}", self.channel),
            ("/p/{name}/records", self.records),
            ("/p/{name}/record/{code}", self.record),
            ("/p/{name}/groups", self.groups),
            ("/p/{name}/groups.svg", self.picture),
            ("/p/{name}/disorder", self.disorder),
            ("/p/{name}/events", self.events),
            ("/p/{name}/rejects", self.rejects),
        ]
        acts: list[tuple[str, Callable[..., Response]]] = [
            ("/p/{name}/channels", self.channel_command),
            ("/p/{name}/group", self.group_command),
            ("/p/{name}/resend", self.resend),
        ]
        routes = [Route(path, self._reading(page)) for path, page in pages]
        routes += [Route(path, self._acting(act), methods=["POST"]) for path, act in acts]
        routes += [
            Route("/login", self.log_in, methods=["GET", "POST"]),
            Route("/logout", self.log_out, methods=["POST"]),
        ]
        handlers: Any = {HTTPException: self._refused, SequencerError: self._failed}
        app = Starlette(
            routes=[*routes, Mount("/static", StaticFiles(directory=HERE / "static"))],
            exception_handlers=handlers,
        )
        return Guard(app, hosts)

    # What is shown

    def overview(self, request: Request) -> Response:
        """All pipelines."""
        return self._page(request, "overview.html", pipelines=views.overview(self.recorder))

    def blocked(self, request: Request) -> Response:
        """Who waits."""
        asked = request.query_params.get("q", "")[:200]
        found = views.blocked(self.recorder, self._name(request, "channel"), asked)
        return self._page(request, "blocked.html", **found)

    def channel(self, request: Request) -> Response:
        """One channel."""
        name = self._name(request, "channel")
        key = _decoded(request.path_params["code"])
        with self._turn():
            return self._page(request, "channel.html", **views.channel(self.recorder, name, key))

    def records(self, request: Request) -> Response:
        """The newest records of a topic, found by key, header or label."""
        name, query = self._name(request), request.query_params
        roles = [(role, topic) for role, topic in self.config.pipelines[name].topics()]
        topic = query.get("topic") or roles[0][1]
        if topic not in {topic for _, topic in roles}:
            raise HTTPException(404, "This pipeline has no such topic.")
        asked = {each: query.get(each, "")[:500] for each in ("key", "header", "label")}
        try:
            with self._turn():
                found, looked = views.records(self.config, topic, **asked)
        except ValueError as error:
            raise HTTPException(400, f"The key {error}.") from None
        shown: dict[str, Any] = {"rows": found, "looked": looked, "topic": topic, "asked": asked}
        return self._page(request, "records.html", roles=roles, **shown)

    def record(self, request: Request) -> Response:
        """One record."""
        name = self._name(request)
        topic, partition, offset = _place(_decoded(request.path_params["code"]).decode("utf-8"))
        if topic not in {topic for _, topic in self.config.pipelines[name].topics()}:
            raise HTTPException(404, "This pipeline has no such topic.")
        with self._turn():
            found = at_place(self.config, topic, partition, offset)
        if found is None:
            raise HTTPException(404, "There is no record at this place (any more).")
        code = views.encoded_key(found.key) if found.key is not None else None
        return self._page(request, "record.html", found=found, code=code)

    def groups(self, request: Request) -> Response:
        """The groups as they are now, and their overlaps."""
        from streaming.verify import current  # noqa: PLC0415  (much memory)

        name = self._name(request, "group")
        with self._turn():
            there = current.now(self.config, name)
        return self._page(request, "groups.html", groups=there)

    def picture(self, request: Request) -> Response:
        """The groups' overlaps as a picture of its own, whose styles are inside."""
        from streaming.graph import draw_overlaps  # noqa: PLC0415  (likewise)
        from streaming.verify import current  # noqa: PLC0415

        name = self._name(request, "group")
        with self._turn():
            there = current.now(self.config, name)
        members = {group: listed.members for group, listed in there.items()}
        drawn = draw_overlaps(members, None, f"{name}: groups and overlaps")
        return Response(drawn, media_type="image/svg+xml")

    def disorder(self, request: Request) -> Response:
        """How far out of order messages come."""
        name = self._name(request, "channel")
        return self._page(request, "disorder.html", **views.disorder(self.recorder, name, 0.001))

    def events(self, request: Request) -> Response:
        """What happened, and who did what."""
        name, query = self._name(request), request.query_params
        with self._turn():
            found = views.events(
                self.config, name, query.get("kind", "")[:50], query.get("text", "")[:200]
            )
        return self._page(request, "events.html", **found)

    def rejects(self, request: Request) -> Response:
        """What was rejected."""
        name = self._name(request)
        with self._turn():
            found = views.rejects(self.recorder, name, request.query_params.get("reason", "")[:50])
        return self._page(request, "rejects.html", **found)

    # What is done

    def channel_command(self, request: Request, form: Mapping[str, str], user: str) -> Response:
        """Skip, seed or reset; a dry run is shown with a button that does it."""
        name = self._name(request, "channel")
        try:
            answer = actions.channel_command(self.config, name, form, user)
        except ValueError:
            raise HTTPException(400, "The channel is no base64.") from None
        return self._page(request, "answer.html", answer=answer, form=form, act="channels")

    def group_command(self, request: Request, form: Mapping[str, str], user: str) -> Response:
        """Add, set, join, leave or remove."""
        name = self._name(request, "group")
        answer = actions.group_command(self.config, name, form, user)
        return self._page(request, "answer.html", answer=answer, form=form, act="group")

    def resend(self, request: Request, form: Mapping[str, str], _user: str) -> Response:
        """Rejects back to their input."""
        name = self._name(request)
        with self._turn():
            counts = actions.resend(self.config, name, form)
        return self._page(request, "resent.html", counts=counts, form=form)

    async def log_in(self, request: Request) -> Response:
        """Ask for the token, and begin a session."""
        wrong = ""
        if request.method == "POST":
            form = await form_of(request)
            try:
                cookie = self.access.log_in(form.get("token", ""), form.get("user", ""))
            except TooManyTries:
                raise HTTPException(429, "Too many wrong tokens; wait a minute.") from None
            if cookie is not None:
                answer = RedirectResponse("/", 303)
                secure = request.url.scheme == "https"
                answer.set_cookie(
                    COOKIE, cookie, SESSION_SECONDS, httponly=True, samesite="strict", secure=secure
                )
                return answer
            wrong = "That is not the token."
        return self._page(request, "login.html", wrong, status=403 if wrong else 200, wrong=wrong)

    async def log_out(self, request: Request) -> Response:
        """End the session."""
        form = await form_of(request)
        session = self._session(request)
        if session is None or form.get("form_token") != session.form_token:
            raise HTTPException(403, "This form is not from this session.")
        self.access.log_out(request.cookies.get(COOKIE))
        answer = RedirectResponse("/", 303)
        answer.delete_cookie(COOKIE)
        return answer

    # What all of them need

    def _reading(self, page: Callable[[Request], Response]) -> Any:
        async def read(request: Request) -> Response:
            if not self.access.is_open and self._session(request) is None:
                return RedirectResponse("/login", 303)
            return await run_in_threadpool(page, request)

        return read

    def _acting(self, act: Callable[[Request, Mapping[str, str], str], Response]) -> Any:
        async def do(request: Request) -> Response:
            session = self._session(request)
            if session is None:
                raise HTTPException(403, "Acting needs a login; see `sequencer console --help`.")
            form = await form_of(request)
            if form.get("form_token") != session.form_token:
                raise HTTPException(403, "This form is not from this session. Nothing was done.")
            return await run_in_threadpool(act, request, form, session.user)

        return do

    def _session(self, request: Request) -> Session | None:
        return self.access.session(request.headers, request.cookies.get(COOKIE))

    def _name(self, request: Request, discipline: str | None = None) -> str:
        name = str(request.path_params["name"])
        pipeline = self.config.pipelines.get(name)
        if pipeline is None or discipline not in (None, pipeline.discipline):
            raise HTTPException(404, "There is no such pipeline, or it has no such page.")
        return name

    def _turn(self) -> Any:
        """One of few places for those who read topics, so that Kafka has little to do for us."""
        if not self.turns.acquire(timeout=WAIT_SECONDS_MAX):
            raise HTTPException(503, "Others are reading topics just now; try again.")
        return _Turn(self.turns)

    def _page(
        self, request: Request, template: str, _said: str = "", *, status: int = 200, **values: Any
    ) -> Response:
        session = self._session(request)
        name = request.path_params.get("name")
        context = {
            "pipelines_all": {
                each: pipeline.discipline for each, pipeline in self.config.pipelines.items()
            },
            "service": self.config.service.name,
            "session": session,
            "can_act": self.access.can_act,
            "needs_token": self.access.token is not None,
            "name": name,
            "path": request.url.path,
            "now": time.time(),
            **values,
        }
        page = self.pages.get_template(template)
        if "x-fragment" in request.headers and "live" in page.blocks:
            return HTMLResponse("".join(page.blocks["live"](page.new_context(context))), status)
        return HTMLResponse(page.render(context), status)

    def _refused(self, request: Request, error: HTTPException) -> Response:
        said = {"title": str(error.status_code), "said": error.detail, "more": ""}
        return self._page(request, "failed.html", status=error.status_code, **said)

    def _failed(self, request: Request, error: SequencerError) -> Response:
        said = {"title": "That did not work", "said": self.config.hide(error.message)}
        more = self.config.hide(f"{error.effect} {error.remedy}".strip())
        status = 400 if error.exit_status == 2 else 503
        return self._page(request, "failed.html", status=status, more=more, **said)


class _Turn:
    def __init__(self, turns: threading.BoundedSemaphore) -> None:
        self.turns = turns

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self.turns.release()


def _decoded(code: str) -> bytes:
    try:
        return views.decoded_key(code)
    except ValueError:
        raise HTTPException(404, "There is no such page.") from None


def _place(text: str) -> tuple[str, int, int]:
    topic, _, rest = text.rpartition("/")
    partition, _, offset = rest.partition("@")
    if not topic or not partition.isdecimal() or not offset.isdecimal():
        raise HTTPException(404, "There is no such page.")
    return topic, int(partition), int(offset)
