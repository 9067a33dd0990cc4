"""`[kafka] properties` as users write them: variables filled in, faults named, secrets hidden."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from streaming.config.kafka_properties import fault
from streaming.settings.values import key_path

SECRET = re.compile(
    r"password|secret|user\.info|auth\.token|passphrase|jaas\.config|\.key\.pem|keystore\.key|oauthbearer\.config"
)
RENEWED = re.compile(rf"{SECRET.pattern}|\.pem$|certificate")
"""What is renewed now and then: secrets, and certificates as texts."""
OF_SPARK = re.compile(
    r"secret|password|passphrase|token|(?:access|account|private|encryption)[.]?key", re.IGNORECASE
)
"""Secrets among Spark's properties, by their names: what Spark hides, and keys of object stores."""
SPARK_REDACTION = "(?i)secret|password|token|access[.]?key"
"""The default of `spark.redaction.regex`."""
VARIABLE = re.compile(r"\$\{([^}]*)\}")
VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SPARK_VARIABLE = re.compile(r"\$\{(file:[^}]*|[A-Za-z_][A-Za-z0-9_]*|[A-Z_][A-Z0-9_]*:[^}]*)\}")
"""What else stands in `${…}` there, `${env:…}` for instance, Spark replaces itself."""

OF_REGISTRY = (
    "basic.auth.user.info",
    "bearer.auth.token",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
)
EXAMPLES = {
    "properties": 'properties = { "security.protocol" = "SSL" }',
    "schema_registry_properties": (
        'schema_registry_properties = { "basic.auth.user.info" = "${USER_AND_PASSWORD}" }'
    ),
}

FILE = "file:"
FILE_BYTES_MAX = 1_000_000
QUOTED = re.compile(r"""["']((?:[^"'\\]|\\.)+)["']""")
HIDDEN = "***"


def registry_fault(name: str, _text: str | None) -> str | None:
    """Return what is wrong with a property of the schema registry's; None where nothing is."""
    if name in OF_REGISTRY:
        return None
    near = difflib.get_close_matches(name, OF_REGISTRY, n=1)
    return f"unknown; {f'did you mean {near[0]}?' if near else 'known: ' + ', '.join(OF_REGISTRY)}"


def read(
    values: Any,
    environ: Mapping[str, str],
    faults: list[str],
    table: str = "properties",
    fault: Callable[[str, str | None], str | None] = fault,
) -> dict[str, str]:
    """The properties as text, each variable filled in; what is wrong goes to ``faults``.

    ``fault`` says what is wrong with one.
    """
    if not isinstance(values, dict):
        faults.append(f"kafka.{table}: must be a table; write for instance {EXAMPLES[table]}")
        return {}
    texts: dict[str, str] = {}
    for name, value in values.items():
        path = key_path(["kafka", table, name])
        if isinstance(value, dict):
            faults.append(f'{path}: is a table; write the whole name in quotes: "{name}.…" = …')
        elif not isinstance(value, (str, bool, int, float)):
            faults.append(f"{path}: must be text, a number, true or false")
        else:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            filled = fill(text, environ, path, faults)
            if wrong := fault(name, filled):
                faults.append(f"{path}: {wrong}")
            if filled is not None:
                texts[name] = filled  # also where it is wrong: a secret is hidden in what is said
    return texts


def secrets(values: Any, filled: Mapping[str, str]) -> tuple[str, ...]:
    """What must not be shown: values from elsewhere, and those whose names say so."""
    if not isinstance(values, dict):
        return ()
    hidden = set()
    for name, text in filled.items():
        raw = values.get(name)
        if SECRET.search(name) or (isinstance(raw, str) and VARIABLE.search(raw)):
            hidden.add(text)
            hidden.update(QUOTED.findall(text) if "jaas" in name else ())
            hidden.update(text.split(":", 1)[1:] if "user.info" in name else ())
    return tuple(sorted(hidden))


def secret_names(spark: Mapping[str, str], hidden: Iterable[str]) -> list[str]:
    """Return which of Spark's properties hold a secret, by their names or by what is ``hidden``."""
    return [name for name, text in spark.items() if text in hidden or OF_SPARK.search(name)]


def redaction(spark: Mapping[str, str], hidden: Iterable[str]) -> str:
    """Return the regular expression of names whose values Spark hides itself: its own, and these.

    Hadoop's properties lose their prefix in Spark's lists.
    """
    names = [name.removeprefix("spark.hadoop.") for name in secret_names(spark, hidden)]
    return "|".join([SPARK_REDACTION, *map(re.escape, names)])


def hide(text: str, hidden: Iterable[str]) -> str:
    """The text without secrets; those of one or two characters would hide everything."""
    for secret in sorted(hidden, key=len, reverse=True):  # one may be a part of another
        if len(secret) > 2:
            text = text.replace(secret, HIDDEN)
    return text


def fill(
    text: str,
    environ: Mapping[str, str],
    path: str,
    faults: list[str],
    variables: re.Pattern[str] = VARIABLE,
) -> str | None:
    """The text with each ``${NAME}``, ``${NAME:default}`` and ``${file:/path}`` filled in.

    None where one cannot be; what is wrong goes to ``faults``, under the key's ``path``.
    """
    values: dict[str, str] = {}
    wrong: list[str] = []
    if "${" in VARIABLE.sub("", text):
        wrong.append(
            f"{path}: a `${{` is not closed; write ${{NAME}}, or put a value that has `${{` in it "
            "into a file: ${file:/path}"
        )
    for name in variables.findall(text):
        try:
            values[name] = _value(name, environ)
        except ValueError as error:
            wrong.append(f"{path}: {error}")
    faults += wrong
    return None if wrong else variables.sub(lambda at: values[at.group(1)], text)


def names_variable(text: str, environ: Mapping[str, str]) -> bool:
    """Return whether a text names a variable that the environment has."""
    names = (name for name in VARIABLE.findall(text) if not name.startswith(FILE))
    return any(name.partition(":")[0] in environ for name in names)


def _value(name: str, environ: Mapping[str, str]) -> str:
    """What stands for a variable; ValueError where nothing does."""
    if name.startswith(FILE):
        return _file(name.removeprefix(FILE))
    name, colon, default = name.partition(":")
    if not VARIABLE_NAME.fullmatch(name):
        raise ValueError(
            f"${{{name}}} names no variable; write ${{NAME}}, ${{NAME:default}} or ${{file:/path}}"
        )
    if name not in environ and not colon:
        raise ValueError(
            f"the environment has no {name}; set it before the start, or write ${{{name}:default}}"
        )
    return environ.get(name, default)


def _file(path: str) -> str:
    """A file's text without the line's end that editors put behind it."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        text = data.decode()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: it is not text in UTF-8") from error
    if len(data) > FILE_BYTES_MAX:
        raise ValueError(f"{path} has more than {FILE_BYTES_MAX:,} bytes: this is not a secret")
    return text.removesuffix("\n").removesuffix("\r")
