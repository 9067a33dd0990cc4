"""The disciplines: a package each, registered here, and what they share."""

from streaming.disciplines.channels import CHANNEL
from streaming.disciplines.discipline import Discipline
from streaming.disciplines.groups import GROUP
from streaming.disciplines.multicast import MULTICAST

DISCIPLINES: dict[str, Discipline] = {each.name: each for each in (CHANNEL, GROUP, MULTICAST)}
