"""Trying the multicast protocols out: trials, interleavings, and the requirements by name."""
