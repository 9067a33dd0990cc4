"""Judging the order from the topics alone, never from the service's own state."""

from streaming.verify.faults import Fault, Verdict

__all__ = ["Fault", "Verdict"]
