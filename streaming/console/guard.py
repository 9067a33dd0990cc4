"""What guards every request: known names only, forms of our own pages only, strict answers.

Every answer forbids scripts, styles and frames of others (Content-Security-Policy); the name that a
browser asks for has to be one of ours, so that no other site's name leads here (DNS rebinding).
"""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

FORM_BYTES_MAX = 65_536
SECURE = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; frame-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


PICTURE = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "frame-ancestors 'self'; sandbox allow-top-navigation-by-user-activation",
    "x-frame-options": "SAMEORIGIN",
}
"""Of a picture that has its styles inside: only its links work, in a frame of our own pages."""


class Guard:
    """Answers only to known names, and adds the headers that every answer needs."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str]) -> None:
        self.app = app
        self.hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(SECURE)
                if scope["path"].endswith(".svg"):
                    headers.update(PICTURE)
                if not scope["path"].startswith("/static/"):
                    headers.setdefault("cache-control", "no-store")
            await send(message)

        host = Request(scope).headers.get("host", "")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        if self.hosts and name.strip("[]").lower() not in self.hosts:
            said = f"This console is not called {name[:100]!r}; start it with --host NAME.\n"
            await PlainTextResponse(said, 421)(scope, receive, secured)
            return
        await self.app(scope, receive, secured)


async def form_of(request: Request) -> dict[str, str]:
    """Return a form's fields. HTTPException where it is too long, or another site sent it."""
    origin = request.headers.get("origin")
    if origin and origin.partition("://")[2] != request.headers.get("host"):
        raise HTTPException(403, "Another site sent this form. Nothing was done.")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > FORM_BYTES_MAX:
            raise HTTPException(413, "The form is too long. Nothing was done.")
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=50))
    except (UnicodeDecodeError, ValueError):
        raise HTTPException(400, "The form cannot be read. Nothing was done.") from None
