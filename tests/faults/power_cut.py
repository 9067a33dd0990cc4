"""A power cut: a service is killed, and its checkpoint becomes what had been synced of it.

Of what had not, the disk may have any part: names without content, content without names, all of
it, nothing. ``rng`` decides; the record is that of `power/sitecustomize.py`.
"""

import json
import shutil
from pathlib import Path

from tests.faults.power.sitecustomize import inode
from tests.warm import python_path

POWER = Path(__file__).parent / "power"


def recording(folder):
    """The environment of a service whose syncs are recorded in a folder."""
    folder.mkdir(exist_ok=True)
    return {"POWER_CUT": str(folder), "PYTHONPATH": f"{POWER}:{python_path()}"}


def cut_power(checkpoint, record, rng):
    """Replace a checkpoint by what a disk may have of it; how many files are lost or torn."""
    left = checkpoint.with_name("left")
    lost = _restore(checkpoint, left, record, rng)
    shutil.rmtree(checkpoint)
    left.rename(checkpoint)
    return lost


def _restore(folder, left, record, rng):
    """What is left of a folder, and of those in it."""
    left.mkdir()
    synced = _recorded(record, folder)
    known = json.loads(synced) if synced is not None else {}
    lost = 0
    for path in sorted(folder.iterdir()):
        is_named = known.get(path.name) == inode(path)
        if not is_named and rng.random() < 0.5:
            lost += 1
            continue
        if path.is_dir():
            lost += _restore(path, left / path.name, record, rng)
            continue
        content = _recorded(record, path)
        if content is None:
            content = path.read_bytes() if rng.random() < 0.5 else b""
            lost += not content
        (left / path.name).write_bytes(content)
        _note(record, left / path.name, content)
    names = {each.name: inode(each) for each in left.iterdir()}
    _note(record, left, json.dumps(names).encode())
    return lost


def _note(record, path, content):
    """Have it on the disk from now on."""
    (record / inode(path)).write_bytes(content)


def _recorded(record, path):
    file = record / inode(path)
    return file.read_bytes() if file.exists() else None
