"""The reasons that a discipline names are those of its protocol and of the sink."""

from sequencer.channels import outcome
from sequencer.multicast.batch import messages
from sequencer.multicast.protocol.words import Refusal
from streaming.disciplines import DISCIPLINES
from streaming.disciplines.groups import records as groups
from streaming.disciplines.multicast import records as multicast
from streaming.sink.refusals import REFUSED, TOO_LARGE

BY_KAFKA = {TOO_LARGE, REFUSED}


def test_of_channels():
    assert DISCIPLINES["channel"].reasons == outcome.REASONS


def test_of_groups():
    assert set(DISCIPLINES["group"].reasons) == {*groups.REASONS[1:]} | BY_KAFKA


def test_of_multicast():
    of_protocols = {multicast.MISSING_SENDER, *(each.value for each in Refusal)}
    named = set(DISCIPLINES["multicast"].reasons)
    assert named == {*messages.REASONS[1:]} | of_protocols | BY_KAFKA
