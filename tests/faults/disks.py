"""A file system of a test's own, in memory, that is full or cannot be written to."""

import shutil
import subprocess
from contextlib import contextmanager

import pytest


class SmallDisk:
    """A folder that is a file system of its own, mounted with ``options``."""

    def __init__(self, path, options):
        self.path = path
        self._mount(options)

    def mend(self):
        """Give it room, and let it be written to."""
        self._mount("remount,rw,size=64m")

    def _mount(self, options):
        words = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.path)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")


@contextmanager
def small_disk(path, options):
    """Mount it at a new folder while the test uses it; skip the test where that cannot be."""
    if not shutil.which("mount"):
        pytest.skip("no file system can be mounted here: there is no mount")
    path.mkdir(parents=True)
    disk = SmallDisk(path, options)
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)
