"""Ordering protocols: pure Python, no Spark, no Kafka, no clock, no I/O."""

from sequencer.availability.concurrent import Availability
from sequencer.labels import CustomLabels, CyclicLabels, LinearLabels
from sequencer.proxy import LabelProxy, OrderedProxy

__all__ = [
    "Availability",
    "CustomLabels",
    "CyclicLabels",
    "LabelProxy",
    "LinearLabels",
    "OrderedProxy",
]
