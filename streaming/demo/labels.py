"""The label demo: airports write no labels, one pipeline gives them, another one reads them."""

from __future__ import annotations

from streaming.demo import channels


class Demo(channels.Demo):
    """The same flights; what an aircraft's flights arrived as is the order that they keep."""

    labelled = False
    pipelines = """\
[pipelines.numbered]
discipline = "label"
input = ["{topic}.in"]
output = "{topic}.numbered"
rejects = "{topic}.rejects"
events = "{topic}.events"

[pipelines.flights]
discipline = "channel"
input = ["{topic}.numbered"]
output = "{topic}.out"
rejects = "{topic}.flights.rejects"
events = "{topic}.flights.events"
"""

    def expected(self) -> int:
        """All flights but those without a tail number, which get no label."""
        return sum(message.key is not None for each in self.plan.values() for message in each)
