"""`sequencer bench`: how fast this machine puts messages in order, beside a plain copy."""
