"""Errors of the service.

SequencerError
├── ConfigError          the configuration, or the call, cannot work        exit status 2
│   ├── TopicsMissing    Kafka lists no such topics
│   └── FileUnusable     a certificate's or key store's file cannot be used, or not now
├── KafkaUnavailable     Kafka does not answer                              exit status 1
│   └── KafkaRefused     Kafka answers, and does not let us
├── StorageUnavailable   the checkpoint's storage does not, or refuses us   exit status 1
├── JobFailed            the job stopped; says what took effect             exit status 1
│   ├── GapTimeout       a gap outlived its time under the policy "fail"
│   ├── Fenced           another copy of the service took over
│   ├── ProgressMissing  nobody can tell whether a batch was written
│   ├── InputDamaged     a record batch is not what it claims to be
│   ├── CheckpointBehind the checkpoint is older than what was written from it
│   └── InputLost        Kafka deleted records before they were read
├── RegistryUnavailable  the schema registry does not answer                exit status 1
├── SchemasNeeded        a task met schemas that the driver has to ask for  (never shown)
└── StateFormatError     the checkpoint was written by another version      exit status 1
"""

from __future__ import annotations

from collections.abc import Iterable

NOT_FINISHED = "The batch was not finished, and will be repeated."
LOOK = "Look at the brokers, and at the rights of this user."


class SequencerError(Exception):
    """What happened, whether it took effect, what to do now."""

    exit_status = 1

    def __init__(self, message: str, effect: str = "", remedy: str = "") -> None:
        super().__init__(message, effect, remedy)
        self.message = message
        self.effect = effect
        self.remedy = remedy

    def __str__(self) -> str:
        between = "\n" if "\n" in self.message else " "
        return between.join(part for part in (self.message, self.effect, self.remedy) if part)


class ConfigError(SequencerError):
    """The configuration, or the call, cannot work; nothing was started.

    ``faults`` has one line for each fault of a configuration.
    """

    exit_status = 2

    def __init__(
        self, message: str, effect: str = "", remedy: str = "", faults: Iterable[str] = ()
    ) -> None:
        super().__init__(message, effect, remedy)
        self.faults = tuple(faults)


class TopicsMissing(ConfigError):  # noqa: N818
    """Kafka lists no such topics: a typing error, a deletion, or brokers that just started."""


class FileUnusable(ConfigError):  # noqa: N818
    """A file that `kafka.properties` name cannot be used: a mistake, or it is being renewed."""


class KafkaUnavailable(SequencerError):  # noqa: N818  (reads as what it is)
    """Kafka does not answer, or not now."""


class KafkaRefused(KafkaUnavailable):
    """Kafka answers, and does not let this user do it: waiting does not help."""


class StorageUnavailable(SequencerError):  # noqa: N818  (likewise)
    """The checkpoint's storage does not answer, or refuses us."""


class RegistryUnavailable(SequencerError):  # noqa: N818  (likewise)
    """The schema registry does not answer, or not as a registry does."""


class SchemasNeeded(SequencerError):  # noqa: N818  (a question, no fault)
    """A task met schemas that it has not got; the message has their ids."""


class JobFailed(SequencerError):  # noqa: N818
    """The job stopped."""


class GapTimeout(JobFailed):
    """A gap outlived its time under the policy `fail`."""


class Fenced(JobFailed):
    """Another copy of the service took over."""


class ProgressMissing(JobFailed):
    """A batch may or may not have been written, and Kafka no longer knows."""


class InputChanged(JobFailed):
    """A batch that was written has other records when it is repeated."""


class InputDamaged(JobFailed):
    """A record batch in an input is not what it claims to be."""


class CheckpointBehind(JobFailed):
    """The checkpoint is older than what was written from it."""


class InputLost(JobFailed):
    """Kafka deleted records before they were read."""


class StateFormatError(SequencerError):
    """The checkpoint was written by another version."""

    def __init__(self, what: str, found: object, *known: int) -> None:
        stated = "states no format" if found is None else f"has format {found}"
        super().__init__(
            f"{what} was written by another version: it {stated}; this version reads format "
            f"{' or '.join(map(str, known))}.",
            "Nothing was changed.",
            "Go on with the version that wrote it, or let that version work through its input, "
            "then start this one with a new checkpoint folder and new topics (docs/operations.md, "
            '"A checkpoint of another version").',
        )
