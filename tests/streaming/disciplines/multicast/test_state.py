"""What checkpoints have of peers: text that was read is written again as it was."""

import json

import pytest

from sequencer.multicast import COUNTER
from streaming.disciplines.multicast.protocol.peers import Peers

SINCE = "1767225600066"
CLOCK_QUEUE = (
    '[41,[[3,"p3",7,null,[],0,[]],[20,"p1",175,null,["1:n2","2:n0"],0,["2:n0"]]],'
    '[["p3",20,0,1],["p1",19,1,2]]]'
)
CLOCK_NODES = (
    '[["2:n0",[],true,[1,"p1"],[]],["4:n4",[["p0",1],["p2",4]],false,null,[]],'
    '["6:n7",[["p2",1]],true,null,[["p3",9,"p1","6:n7",["p4","p5"]]]]]'
)
CLOCK_HANDLES = '[["0:n1"],[["1:n2",1],["4:n4",2]],["2:n0"],[["0:n1",2],["4:n4",1]]]'
CLOCK_LINE = (
    '[20,[[1,[49,["p4","p3"],[],[]],[["sync",true,true,true,[23,"p0"],null,[],2],'
    '[["p3","p4"],["p4"],[],["p3","p4"],[]],null]],'
    '[2,[35,["p3",["p2","0:n1"]],["0:n1"],["p2"]],'
    '[["queue",false,true,false,[26,"p0"],null,["0:n1"],1],'
    '[["p2"],["p2"],["0:n1"],["p2","p3"],["0:n1"]],null]],'
    '[3,[36,"5:n8"],[["cancel",false,true,false,null,["p9","no-room","full",null],[],5],'
    '[["p0"],[],[],["p0"],[]],["p0","p9"]]]],[],[2,3]]'
)
COPIES = (
    '[["p0",3,0,null,[[184,null,["0:n1"],0]]],["p4",1,5,null,[[229,"5:n8",[],1]]],'
    '["p4",0,5,9,[[226,"2:n6",[],1,[]]]],["p1",2,9,11,[[124,null,["0:n1"],0,["0:n1"]]]]]'
)
COUNTER_LINE = (
    '[3,[[1,[229,"5:n8"],[["increment",false,true,true,null,null,[],5,["p6"]],'
    '[[""],[],[],["p4"]],["p4"]]],'
    '[2,[124,["p4","p2"],[],[]],[["commit",false,true,true,[7,"p0"],null,[],0,[]],'
    '[["p2"],[],[],["p2","p4"]],null]]],[2],[1,2]]'
)
TEXTS = {
    "a clock alone": ("clock", "p0", "[[35]]", "null"),
    "a peer by clocks": (
        "clock",
        "p0",
        f"[{CLOCK_QUEUE},{CLOCK_NODES},{CLOCK_HANDLES}]",
        CLOCK_LINE,
    ),
    "a sender by clocks": ("clock", "p0", "null", "[7]"),
    "the counter": (
        "counter",
        COUNTER,
        '[25,[["0:n1",[["p0",1],["p1",1]],false,null,[]],["2:n6",[],true,[9,"p4"],[]]]]',
        "null",
    ),
    "a peer by the counter": (
        "counter",
        "p0",
        f'[{COPIES},["3:n1"],[["0:n1",1],["3:n1",2]]]',
        COUNTER_LINE,
    ),
}


def shard(order, name, text):
    """A shard's peers with one, read from a checkpoint."""
    peers = Peers(order)
    head = [0, [name], [int(SINCE)], [], []]
    peers.load(json.dumps(head) + "\n" + text)
    return peers


@pytest.mark.parametrize(("order", "name", "party", "line"), TEXTS.values(), ids=TEXTS)
def test_a_peer_is_written_as_it_was(order, name, party, line):
    text = f"[5,{SINCE},{party},{line}]"
    peers = shard(order, name, text)
    peers.touch(name)
    peers.settle(int(SINCE))
    assert peers.texts == {name: text}
