"""The command that starts Spark's JVM.

Spark's script (`bin/spark-submit`) starts a JVM just to compute that command: half a second of each
start. Unless the user has settings that only the script reads, the command is made here; a test
compares the two. They differ in Spark's jars on the class path (`class_path`).
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Container, Mapping
from pathlib import Path

OPENED = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
MODULES = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens={name}=ALL-UNNAMED" for name in OPENED),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-Dderby.connection.requireAuthentication=false",
)
"""Spark's options for every JVM (`JavaModuleOptions`), but for the vector module: only the machine
learning library uses it, and Java warns of it in the user's terminal."""

MAIN = "org.apache.spark.deploy.SparkSubmit"
SCALA = "2.13"
LOGGING = "slf4j-api-"
"""Goes before jars that may contain another version."""
MACHINE_LEARNING = "spark-mllib_"
SCRIPTS_VARIABLES = (
    "JAVA_OPTS",
    "SPARK_BEELINE_OPTS",
    "SPARK_CONF_DIR",
    "SPARK_DRIVER_MEMORY",
    "SPARK_HOME",
    "SPARK_LAUNCHER_OPTS",
    "SPARK_PREPEND_CLASSES",
    "SPARK_PRINT_LAUNCH_COMMAND",
    "SPARK_SUBMIT_LIBRARY_PATH",
    "SPARK_SUBMIT_OPTS",
    "SPARK_TESTING",
)
"""Variables of the environment that the script reads, and a Spark of the user's own."""
CLASS_PATH, JAVA_OPTIONS = "spark.driver.extraClassPath", "spark.driver.extraJavaOptions"
SCRIPTS_SETTINGS = ("spark.driver.defaultJavaOptions", "spark.driver.extraLibraryPath")


def command(
    home: Path, settings: Mapping[str, str], secrets: Container[str] = (), file: Path | None = None
) -> tuple[list[str], dict[str, str]]:
    """Return the words that start the JVM of the Spark in a folder, and its further environment.

    Settings whose names are ``secrets`` are written to ``file``, if one is given, which nobody else
    may read: every user of the machine can read the words.
    """
    hidden = {name: settings[name] for name in settings if file is not None and name in secrets}
    shown = {name: value for name, value in settings.items() if name not in hidden}
    options = [word for name, value in shown.items() for word in ("--conf", f"{name}={value}")]
    if file is not None and hidden:
        file.write_text("".join(_property(*each) for each in hidden.items()))
        options += ["--load-spark-defaults", "--properties-file", str(file)]
    java = _java()
    if java is None or _needs_script(home, settings):
        return [str(home / "bin" / "spark-submit"), *options, "pyspark-shell"], {}
    path = [settings.get(CLASS_PATH, ""), f"{home}/conf", *map(str, class_path(home))]
    words = [
        *(java, "-cp", os.pathsep.join(filter(None, path))),
        f"-Xmx{settings.get('spark.driver.memory', '1g')}",
        *shlex.split(settings.get(JAVA_OPTIONS, "")),
        *MODULES,
        *(MAIN, *options, "pyspark-shell"),
    ]
    return words, {
        "PYTHONHASHSEED": "0",
        "SPARK_CONF_DIR": f"{home}/conf",
        "SPARK_ENV_LOADED": "1",
        "SPARK_SCALA_VERSION": SCALA,
    }


def _property(name: str, value: str) -> str:
    """Return a line of a file of Java's properties."""
    escaped = re.sub(r"([\\\s:=#!])", r"\\\1", name)
    return f"{escaped}={json.dumps(value)[1:-1]}\n"


def class_path(home: Path) -> list[Path]:
    """Return the jars for the JVM of the Spark in a folder, in their order.

    Without Spark's machine learning library: it registers functions in every session, and
    describing their types by Scala's reflection takes half of a session's start.
    """
    jars = sorted(home.glob("jars/*.jar"))
    logging = [jar for jar in jars if jar.name.startswith(LOGGING)]
    skipped = (LOGGING, MACHINE_LEARNING)
    return [*logging, *(jar for jar in jars if not jar.name.startswith(skipped))]


def _java() -> str | None:
    """Return the java that Spark's script would use, None if the script would report an error."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(f"{home}/bin/java" if home else "java")


def _needs_script(home: Path, settings: Mapping[str, str]) -> bool:
    """Return whether a setting exists that only Spark's script, or what it starts, reads."""
    given = settings.get(JAVA_OPTIONS, "")
    return (
        any(os.environ.get(name) for name in SCRIPTS_VARIABLES)
        or any(name in settings for name in SCRIPTS_SETTINGS)
        or not settings.get("spark.master", "local").startswith("local")
        or (home / "conf").exists()
        or "-Xmx" in given
        or "\\" in given
    )
