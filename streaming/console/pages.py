"""The pages: which address shows what."""

from __future__ import annotations

import hashlib
import json
import math
import re
import time
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from streaming.console import actions, drawing, effects, streams, values, views, waits
from streaming.console.desk import Desk
from streaming.kafka.newest import SECONDS_MAX, around
from streaming.verify import current
from streaming.verify.notices import is_notice

NEIGHBOURS = 10
"""Offsets before and after a record whose records its page lists."""
NUMBERS_SECONDS = 60
SIZE = re.compile(r' (?:width|height)="([0-9.]+)"')
FIELDS = ("key", "label", "header", "place")


def overview(desk: Desk, request: Request) -> Response:
    """All pipelines."""
    back = views.back_of(request.query_params.get("back", ""))
    shown = views.overview(desk.recorder, desk.prometheus, back)
    source = desk.prometheus.address if desk.prometheus else ""
    more: dict[str, Any] = {"back": back, "choices": views.BACK, "source": source}
    return desk.page(request, "overview.html", pipelines=shown, **more)


def blocked(desk: Desk, request: Request) -> Response:
    """Who waits."""
    asked = request.query_params.get("q", "")[:200]
    name = desk.name(request, "channel", "group", "multicast")
    found = waits.blocked(desk.recorder, name, asked)
    return desk.page(request, "blocked.html", **found)


def channel(desk: Desk, request: Request) -> Response:
    """One channel."""
    name = desk.name(request, "channel")
    key = _decoded(request.path_params["code"])
    with desk.turn():
        found = streams.channel(desk.config, name, key, _scope(request))
    return desk.page(request, "channel.html", **found)


def group(desk: Desk, request: Request) -> Response:
    """One group: its members, and its messages in the order that all of them see."""
    name = desk.name(request, "group")
    asked = _decoded(request.path_params["code"]).decode(errors="replace")
    with desk.turn():
        listed = desk.groups.of(name).get(asked)
        members = listed.members if listed else ()
        found = streams.group(desk.config, name, asked, _scope(request), members)
    numbers = current.numbers(desk.config, name)
    shown: dict[str, Any] = {"listed": listed, "overlaps": _overlaps(numbers, asked)}
    return desk.page(request, "group.html", group=asked, **shown, **found)


def subscriber(desk: Desk, request: Request) -> Response:
    """One subscriber, peer or labelled channel: what it gets, in its order."""
    name = desk.name(request, "group", "multicast", "label")
    key = _decoded(request.path_params["code"])
    with desk.turn():
        found = streams.subscriber(desk.config, name, key, _scope(request))
    return desk.page(request, "subscriber.html", **found)


def records(desk: Desk, request: Request) -> Response:
    """The newest records of a topic, found by key, header or label; one by its place."""
    name, query = desk.name(request), request.query_params
    roles = list(desk.config.pipelines[name].topics())
    topic = query.get("topic") or roles[0][1]
    if topic not in {topic for _, topic in roles}:
        if not desk.config.is_output(name, topic):
            raise HTTPException(404, "This pipeline has no such topic.")
        roles.append(("output", topic))
    asked = {each: query.get(each, "")[:500] for each in FIELDS}
    try:
        if asked["place"]:
            values.place_in(asked["place"])
            return RedirectResponse(values.link(name, asked["place"].strip()), 303)
        with desk.turn():
            rows, found = views.records(desk.config, name, topic, asked, _seconds(request))
    except ValueError as error:
        raise HTTPException(400, f"{str(error)[:1].upper()}{str(error)[1:]}.") from None
    shown: dict[str, Any] = {"rows": rows, "topic": topic, "asked": asked, "roles": roles}
    shown |= {"looked": views.looked(found), "is_whole": found.is_whole}
    return desk.page(request, "records.html", **shown)


def record(desk: Desk, request: Request) -> Response:
    """One record."""
    name = desk.name(request)
    try:
        place = values.place_in(_decoded(request.path_params["code"]).decode("utf-8"))
    except ValueError:
        raise HTTPException(404, "There is no such page.") from None
    roles = {topic: role for role, topic in desk.config.pipelines[name].topics()}
    if place[0] not in roles and not desk.config.is_output(name, place[0]):
        raise HTTPException(404, "This pipeline has no such topic.")
    with desk.turn():
        near = around(desk.config, *place, NEIGHBOURS)
    found = next((each for each in near if each.offset == place[2]), None)
    if found is None and not near:
        raise HTTPException(404, "There is no record at this place (any more).")
    shown: dict[str, Any] = {"found": found, "near": near, "role": roles.get(place[0], "output")}
    if found is None:
        return desk.page(request, "nowhere.html", place="{}/{}@{}".format(*place), **shown)
    if shown["role"] == "rejects":  # in other topics these headers are a sender's
        shown |= views.reject_of(desk.config, found)
    prefix = desk.config.service.header_prefix
    is_of_event = shown["role"] == "output" and is_notice(found, prefix)
    is_of_channel = shown["role"] in ("input", "output", "rejects") and not is_of_event
    settings = desk.config.pipelines[name]
    stream = values.channel_of(settings, found) if is_of_channel else found.key
    return desk.page(request, "record.html", stream=stream, **shown)


def groups(desk: Desk, request: Request) -> Response:
    """The current groups, and their overlaps."""
    name = desk.name(request, "group")
    with desk.turn():
        there = desk.groups.of(name)
    version, drawn = _drawn(desk, name, {each: listed.members for each, listed in there.items()})
    width, height = (f"{math.ceil(float(each))}" for each in SIZE.findall(drawn)[:2])
    shown: dict[str, Any] = {"version": version, "width": width, "height": height}
    return desk.page(request, "groups.html", groups=there, **shown)


def picture(desk: Desk, request: Request) -> Response:
    """The groups' overlaps as a picture of its own, whose styles are inside.

    With nodes and their load where nodes order them. With a command in its address, the groups as
    they would be after it.
    """
    name, query = desk.name(request, "group"), request.query_params
    with desk.turn():
        there = desk.groups.of(name)
    members = {group: listed.members for group, listed in there.items()}
    if query.get("op"):
        members = effects.after(members, actions.read_group_command(query))
        drawn = drawing.groups(desk.config, name, members)
    else:
        _, drawn = _drawn(desk, name, members)
    kept = {"cache-control": "private, max-age=60"} if query.get("v") else {}
    return Response(drawn, media_type="image/svg+xml", headers=kept)


def _drawn(desk: Desk, name: str, members: dict[str, list[str]]) -> tuple[str, str]:
    """Return the picture of groups, and a word that changes with it.

    It is drawn again where members changed, and once a minute for the numbers of overlaps.
    """
    now = json.dumps([int(time.time() // NUMBERS_SECONDS), members], sort_keys=True)
    version = hashlib.sha256(now.encode()).hexdigest()[:16]
    kept = desk.pictures.get(name)
    if kept is None or kept[0] != version:
        kept = desk.pictures[name] = (version, drawing.groups(desk.config, name, members))
    return kept


def disorder(desk: Desk, request: Request) -> Response:
    """How far out of order messages come."""
    name = desk.name(request, "channel")
    return desk.page(request, "disorder.html", **views.disorder(desk.recorder, name, 0.001))


def events(desk: Desk, request: Request) -> Response:
    """What happened, and who did what."""
    name, query = desk.name(request), request.query_params
    asked = query.get("kind", "")[:50], query.get("text", "")[:200]
    with desk.turn():
        found = views.events(desk.config, name, *asked, _seconds(request))
    return desk.page(request, "events.html", **found)


def rejects(desk: Desk, request: Request) -> Response:
    """What was rejected."""
    name = desk.name(request)
    query = request.query_params
    asked = {"reason": query.get("reason", "")[:50], "key": query.get("key", "")[:500]}
    try:
        with desk.turn():
            found = views.rejects(desk.recorder, name, asked, _seconds(request))
    except ValueError as error:
        raise HTTPException(400, f"{str(error)[:1].upper()}{str(error)[1:]}.") from None
    return desk.page(request, "rejects.html", **found)


def _seconds(request: Request) -> float:
    return SECONDS_MAX if request.query_params.get("far") else streams.QUICK_SECONDS


def _scope(request: Request) -> streams.Scope:
    """Return where lanes are looked for: ``before`` names places, one for each partition."""
    try:
        places = [values.place_in(each) for each in request.query_params.getlist("before")]
    except ValueError as error:
        raise HTTPException(400, f"{str(error)[:1].upper()}{str(error)[1:]}.") from None
    until = {(topic, partition): offset for topic, partition, offset in places}
    version, _, number = request.query_params.get("below", "").partition(".")
    is_below = values.is_number(version) and values.is_number(number)
    return streams.Scope(
        _seconds(request), until, (int(version), int(number)) if is_below else None
    )


def _overlaps(numbers: Any, group: str) -> list[tuple[str, int]]:
    """Return a group's overlaps with their next numbers, as far as the status lists them."""
    return [
        (other if group == one else one, number)
        for (one, other), number in sorted(numbers.items())
        if group in (one, other)
    ]


def _decoded(code: str) -> bytes:
    try:
        return values.decoded_key(code)
    except ValueError:
        raise HTTPException(404, "There is no such page.") from None


PAGES = [
    ("/", overview),
    ("/p/{name}/blocked", blocked),
    ("/p/{name}/channel/{code:path}", channel),  # of an empty key it is empty
    ("/p/{name}/group/{code}", group),
    ("/p/{name}/subscriber/{code:path}", subscriber),
    ("/p/{name}/records", records),
    ("/p/{name}/record/{code}", record),
    ("/p/{name}/groups", groups),
    ("/p/{name}/groups.svg", picture),
    ("/p/{name}/disorder", disorder),
    ("/p/{name}/events", events),
    ("/p/{name}/rejects", rejects),
]
