"""A plan of a channel pipeline, with short names of topics."""

from streaming.disciplines.channels.plan import ChannelPlan


def plan(rules):
    names = ("out", "rejects", "events", "commands")
    roles = dict(zip(("output", "rejects", "events", "commands"), names, strict=True))
    return ChannelPlan(
        service="s",
        pipeline="p",
        inputs=("in",),
        partitions=dict.fromkeys(names[:3], 3),
        rules=rules,
        **roles,
    )
