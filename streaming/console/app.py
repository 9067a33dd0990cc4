"""The application: addresses, sessions, and what is said where something does not work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from streaming.console.access import COOKIE, SESSION_SECONDS, TooManyTries
from streaming.console.desk import HERE, Desk
from streaming.console.forms import FORMS
from streaming.console.guard import Guard, form_of
from streaming.console.pages import PAGES
from streaming.errors import SequencerError

Page = Callable[[Desk, Request], Response]
Form = Callable[[Desk, Request, Mapping[str, str], str], Response]


class Console:
    """The desk's pages and forms, for those who may see and use them."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def app(self, hosts: frozenset[str]) -> ASGIApp:
        """Return the application; ``hosts``: names by which browsers may ask, empty for any."""
        routes = [Route(path, self._reading(page)) for path, page in PAGES]
        routes += [Route(path, self._acting(form), methods=["POST"]) for path, form in FORMS]
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

    async def log_in(self, request: Request) -> Response:
        """Ask for the token, and begin a session."""
        wrong = ""
        if request.method == "POST":
            form = await form_of(request)
            try:
                given = form.get("token", ""), form.get("user", "")
                cookie = self.desk.access.log_in(*given)
            except TooManyTries:
                raise HTTPException(429, "Too many wrong tokens; wait a minute.") from None
            if cookie is not None:
                answer = RedirectResponse(_own_page(form.get("then", "")), 303)
                secure = request.url.scheme == "https"
                # Lax, so that a link in an alert finds the session; forms of others do not.
                answer.set_cookie(
                    COOKIE, cookie, SESSION_SECONDS, httponly=True, samesite="lax", secure=secure
                )
                return answer
            wrong = "That is not the token."
        then = _own_page(request.query_params.get("then", ""))
        return self.desk.page(
            request, "login.html", status=403 if wrong else 200, wrong=wrong, then=then
        )

    async def log_out(self, request: Request) -> Response:
        """End the session."""
        form = await form_of(request)
        session = self.desk.session(request)
        if session is None or form.get("form_token") != session.form_token:
            raise HTTPException(403, "This form is not from this session.")
        self.desk.access.log_out(request.cookies.get(COOKIE))
        answer = RedirectResponse("/", 303)
        answer.delete_cookie(COOKIE)
        return answer

    def _reading(self, page: Page) -> Any:
        async def read(request: Request) -> Response:
            if not self.desk.access.is_open and self.desk.session(request) is None:
                return RedirectResponse("/login", 303)
            return await run_in_threadpool(page, self.desk, request)

        return read

    def _acting(self, form: Form) -> Any:
        async def do(request: Request) -> Response:
            session = self.desk.session(request)
            if session is None:
                raise HTTPException(403, "Acting needs a login; see `sequencer console --help`.")
            given = await form_of(request)
            if given.get("form_token") != session.form_token:
                raise HTTPException(403, "This form is not from this session. Nothing was done.")
            return await run_in_threadpool(form, self.desk, request, given, session.user)

        return do

    def _refused(self, request: Request, error: HTTPException) -> Response:
        said = {"title": str(error.status_code), "said": error.detail, "more": ""}
        return self.desk.page(request, "failed.html", status=error.status_code, **said)

    def _failed(self, request: Request, error: SequencerError) -> Response:
        hide = self.desk.config.hide
        said = {"title": "That did not work", "said": hide(error.message)}
        more = hide(f"{error.effect} {error.remedy}".strip())
        status = 400 if error.exit_status == 2 else 503
        return self.desk.page(request, "failed.html", status=status, more=more, **said)


def _own_page(path: str) -> str:
    """Return the page to go to after a login: one of ours, never another site's."""
    is_own = path.startswith("/p/") and path.isascii() and path.isprintable() and "\\" not in path
    return path if is_own else "/"
