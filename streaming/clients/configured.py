"""What a producer takes from the service's configuration file; a check of its own arguments."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sequencer.labels import LABEL_MAX
from streaming.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streaming.disciplines.channels.settings import ChannelPipeline

KEEP_MAX = 1_000_000
LABELS_COMPARED = 1_000
NOTHING = "Nothing was connected."


def producer_of(
    file: str | Path, pipeline: str, topic: str | None, labels: Any
) -> tuple[dict[str, Any], str, dict[str, Any]]:
    """Return a `LabelledProducer`'s properties, topic and other arguments for a channel pipeline.

    ``topic``: which of its inputs; ``labels``: the caller's own sequence, if any. ConfigError where
    the pipeline would read other labels than such a producer writes.
    """
    from streaming.config import load_config  # noqa: PLC0415  (clients are imported without it)
    from streaming.disciplines.channels.settings import ChannelPipeline  # noqa: PLC0415
    from streaming.disciplines.channels.sql import header_name  # noqa: PLC0415
    from streaming.kafka.client_settings import confluent  # noqa: PLC0415

    config = load_config(Path(file))
    (name,) = config.named([pipeline])
    settings = config.pipelines[name]
    if not isinstance(settings, ChannelPipeline):
        raise ConfigError(
            f"Pipeline {name!r} has the discipline {settings.discipline!r}; labels are for "
            "'channel'.",
            NOTHING,
        )
    header = header_name(settings.label)
    if header is None or settings.channel != "key":
        raise ConfigError(
            f"Pipeline {name!r} reads the channel from {str(settings.channel)!r} and the label "
            f"from {str(settings.label)!r}; this producer writes the channel as key and the label "
            "into a header.",
            NOTHING,
            "Write such records with a Kafka client of your own.",
        )
    more = {"label_header": header, "labels": labels or settings.all_rules().labels}
    _require_sequence(more["labels"])
    _require_same(name, settings, more["labels"])
    topics = {"wanted": settings.wanted, "commands": settings.commands}
    return confluent(config), _input(name, settings, topic), {**more, **topics}


def _input(name: str, settings: ChannelPipeline, topic: str | None) -> str:
    if topic is None and len(settings.input) == 1:
        return settings.input[0]
    if topic in settings.input:
        return str(topic)
    raise ConfigError(
        f"Pipeline {name!r} reads {', '.join(settings.input)}"
        + ("; it is not clear which is meant." if topic is None else f", not {topic}."),
        NOTHING,
        "Give one of them as topic.",
    )


def require_usable(labels: Any, keep: int, epoch: int | None) -> None:
    """Raise ConfigError where a producer's own arguments cannot work."""
    _require_sequence(labels)
    if not 0 <= keep <= KEEP_MAX or (keep and not hasattr(labels, "position")):
        raise ConfigError(
            f"keep is {keep}: a producer keeps 0 to {KEEP_MAX:,} messages of a channel, and "
            "finds them by labels that have positions.",
            NOTHING,
            "Write another number; as labels, LinearLabels, CyclicLabels or CustomLabels.",
        )
    if epoch is not None and not (type(epoch) is int and 0 <= epoch <= LABEL_MAX):
        raise ConfigError(
            f"epoch is {epoch!r}; the service rejects such messages (bad-epoch).",
            NOTHING,
            f"Write a whole number from 0 to {LABEL_MAX}.",
        )


def _require_sequence(labels: Any) -> None:
    is_made = not isinstance(labels, type)  # a class has both, too
    if not (is_made and hasattr(labels, "initial") and callable(getattr(labels, "next", None))):
        raise ConfigError(
            f"labels is {labels!r}, which is no sequence with an `initial` label and a `next` one.",
            NOTHING,
            "Write LinearLabels(), CyclicLabels(…), CustomLabels(…), or leave labels out.",
        )


def _require_same(name: str, settings: ChannelPipeline, labels: Any) -> None:
    """ConfigError that names the first label in which a sequence is another than the pipeline's."""
    rules = settings.all_rules()
    own: Any = rules.labels
    first = own.initial if rules.settle_ms is None else labels.initial
    pairs = zip(_walk(labels, labels.initial), _walk(own, first), strict=False)
    differing = (
        f"its label {number} is {written}, the pipeline's {read}"
        for number, (written, read) in enumerate(islice(pairs, LABELS_COMPARED))
        if str(written) != str(read)
    )
    cycles = getattr(labels, "cycle", None), own.cycle
    found = next(differing, None)
    if found is None and cycles[0] != cycles[1]:
        ends = ["never ends" if cycle is None else f"has {cycle:,} labels" for cycle in cycles]
        found = f"its cycle {ends[0]}, the pipeline's {ends[1]}"
    if found is not None:
        raise ConfigError(
            f"The producer's labels are not those of pipeline {name!r}: {found}.",
            NOTHING,
            "Leave labels out, and the pipeline's are written.",
        )


def _walk(labels: Any, label: Any) -> Iterator[Any]:
    while True:
        yield label
        label = labels.next(label)
