"""Small scenarios for trying all interleavings, and random larger ones."""

from sequencer.checking.scenarios import Dequeued, Destroy, Finished, Scenario, Send

A = Send("A", "P", ("Q", "R"))
B = Send("B", "Q", ("P", "R"))
C = Send("C", "R", ("P", "Q"))


def after(send, *events):
    return Send(send.id, send.sender, send.to, send.handles, events)


QUICK = {
    "one multicast": Scenario((A,)),
    "two senders": Scenario((A, B)),
    "a reaction among three": Scenario((A, B, after(C, Dequeued("R", "A")))),
    "a chain of reactions": Scenario(
        (A, after(B, Dequeued("Q", "A")), after(C, Dequeued("P", "B")))
    ),
    "one who has read tells a third": Scenario(
        (
            A,
            Send("B", "P", ("Q", "S")),
            Send("C", "S", ("Q", "R"), after=(Dequeued("Q", "A"), Finished("B"))),
        )
    ),
    "a reaction overtakes in the line": Scenario(
        (A, Send("B", "P", ("S",)), Send("C", "O", ("Q", "R"), after=(Dequeued("S", "B"),)))
    ),
    "a refusal overtakes in the line": Scenario(
        (
            Destroy("~n", "n"),
            Send("A", "P", ("Q", "R"), after=(Finished("~n"),)),
            Send("B", "P", ("@n",)),
            Send("C", "O", ("Q", "R"), after=(Finished("B"),)),
        ),
        {"n": "S"},
    ),
    "three in flight of one sender": Scenario((A, Send("B", "P", ("Q",)), Send("C", "P", ("R",)))),
    "unicasts in flight": Scenario(
        (
            Send("A", "P", ("R",)),
            Send("B", "Q", ("R",)),
            Send("C", "O", ("Q", "R"), after=(Finished("A"),)),
        )
    ),
    "to oneself": Scenario((Send("A", "P", ("P", "Q")), Send("B", "Q", ("P",)))),
    "two nodes of one owner, one dies": Scenario(
        (Send("A", "P", ("@n", "@m")), Destroy("~n", "n")), {"n": "R", "m": "R"}
    ),
    "all nodes die": Scenario(
        (Send("A", "P", ("@n", "@m")), Destroy("~n", "n"), Destroy("~m", "m")),
        {"n": "O", "m": "O"},
    ),
    "a handle and its end": Scenario(
        (
            Send("A", "P", ("Q", "R"), ("@n",)),
            Destroy("~n", "n"),
            Send("B", "Q", ("R",), ("@n",), (Dequeued("Q", "~n"),)),
        ),
        {"n": "O"},
    ),
    "a handle passed on": Scenario(
        (
            Send("A", "P", ("Q",), ("@n",)),
            Send("B", "Q", ("P",), ("@n",), (Dequeued("Q", "A"),)),
            Destroy("~n", "n"),
        ),
        {"n": "R"},
    ),
    "a handle to the receiver's own node": Scenario(
        (Send("A", "P", ("Q",), ("@n",)), Destroy("~n", "n")), {"n": "Q"}
    ),
}
LONG = {
    "two, to all three and themselves": Scenario(
        (Send("A", "P", ("P", "Q", "R")), Send("B", "Q", ("P", "Q", "R")))
    ),
    "three senders": Scenario((A, B, C)),
    "a signal when queued": Scenario((A, B, after(C, Finished("A")))),
    "two, a reaction to both": Scenario(
        (A, B, Send("C", "S", ("P", "Q"), after=(Dequeued("R", "A"), Dequeued("R", "B"))))
    ),
    "a multicast between unicasts": Scenario(
        (Send("A", "P", ("R",)), Send("B", "Q", ("R",)), Send("C", "P", ("R", "Q")))
    ),
    "a line of multicasts, and another sender": Scenario(
        (A, Send("B", "P", ("Q", "R")), Send("C", "Q", ("R",)))
    ),
    "to oneself, twice": Scenario(
        (Send("A", "P", ("P", "Q")), Send("B", "Q", ("P",)), Send("C", "P", ("P",)))
    ),
    "two owners": Scenario(
        (Send("A", "P", ("@n", "@m")), Destroy("~n", "n"), Destroy("~m", "m")),
        {"n": "O", "m": "Q"},
    ),
    "two senders to a dying node": Scenario(
        (Send("A", "P", ("@n", "@m")), Send("B", "Q", ("@n", "R")), Destroy("~n", "n")),
        {"n": "R", "m": "R"},
    ),
    "a handle to its owner and to others": Scenario(
        (Send("A", "P", ("Q",), ("@n",)), Send("B", "Q", ("R",), ("@n",)), Destroy("~n", "n")),
        {"n": "R"},
    ),
    "two handles": Scenario(
        (Send("A", "P", ("Q",), ("@n", "@m")), Destroy("~n", "n"), Destroy("~m", "m")),
        {"n": "O", "m": "R"},
    ),
    "destructions that wait for each other's line": Scenario(
        (
            Send("A", "O", ("P",), ("@m",)),
            Destroy("~n", "n"),
            Send("B", "R", ("P",), ("@n",)),
            Destroy("~m", "m"),
        ),
        {"n": "O", "m": "R"},
    ),
}


def random_scenario(rng):
    """Three to six peers, up to three nodes, up to ten sends, a third of them reactions."""
    peers = "PQRSTU"[: rng.randint(3, 6)]
    nodes = {node: rng.choice(peers) for node in "klm"[: rng.randint(0, 3)]}
    sends = []
    doomed = list(nodes)
    for number in range(rng.randint(3, 10)):
        events = ()
        earlier = [send for send in sends if isinstance(send, Send)]
        if earlier and rng.random() < 0.35:
            cause = rng.choice(earlier)
            readers = [name for name in cause.to if name[0] != "@"]
            events = (Finished(cause.id),)
            if readers and rng.random() < 0.7:
                events = (Dequeued(rng.choice(readers), cause.id),)
        if doomed and rng.random() < 0.25:
            node = doomed.pop()
            sends.append(Destroy(f"~{node}", node, events))
            continue
        places = [*peers, *(f"@{node}" for node in nodes)]
        to = rng.sample(places, rng.choice((1, 2, 2, 3, len(places))))
        handles = [f"@{node}" for node in nodes if rng.random() < 0.3]
        sends.append(
            Send(f"m{number}", rng.choice(peers), tuple(to), tuple(handles), tuple(events))
        )
    return Scenario(tuple(sends), nodes)
