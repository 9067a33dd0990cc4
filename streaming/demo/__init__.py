"""`sequencer demo`: the service at work on real flights."""
