"""A packet-level simulation of the sequencing network, after the paper's section 4."""
