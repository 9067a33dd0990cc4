"""Faults of a checkpoint's storage: full, not to be written to, files that are damaged."""

import shutil
from contextlib import contextmanager

from tests.chaos.fault import GOES_ON, Fault
from tests.faults.damage import DAMAGES, FIGURES, KINDS, newest
from tests.faults.disks import small_disk

SECONDS = 20
MAY_GO_ON = "goes on"
MAY_REFUSE = "goes on, or it or its pipeline says so until the file is back"
GOES_ON_WITHOUT = "goes on"
REFUSED = "refused, restored"
STANDS = "its pipeline says so and tries again, the others go on; restored"


@contextmanager
def own_disk(place):
    """Put the checkpoints into a file system of their own while the service is away."""
    folder = place.config.parent / "checkpoints"
    aside = folder.with_name("aside")
    assert place.service.stop() == 0, place.service.said()
    folder.rename(aside)
    with small_disk(folder, "size=256m") as disk:
        shutil.copytree(aside, folder, dirs_exist_ok=True)
        place.start()
        place.next_deliveries()
        yield disk
        place.next_deliveries()
        assert place.service.stop() == 0, place.service.said()
        shutil.rmtree(aside)
        shutil.copytree(folder, aside)
    folder.rmdir()
    aside.rename(folder)
    place.start()


@contextmanager
def full(place):
    """Something else fills it."""
    with own_disk(place) as disk:
        others = disk.path / "others"
        with others.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(65_536))
            except OSError:
                pass
        place.wait(SECONDS)
        others.unlink()
    yield


def damaged(kind):
    """The newest file of a kind is torn, emptied or removed while the service is away.

    It goes on, or ends with a sentence that names the file, or one pipeline says so and tries again
    while the others go on. In the end all go on with the file as it was.
    """

    @contextmanager
    def act(place):
        name = "channel" if kind in ("held", "waiting") else place.rng.choice(place.traffic.names)
        folder = place.config.parent / "checkpoints" / name
        assert place.until(lambda: newest(folder, KINDS[kind])), f"{name} has no file of {kind}"
        place.service.kill()
        path = newest(folder, KINDS[kind])
        how = place.rng.choice([*DAMAGES])
        assert path is not None, f"{name} has no file of {kind} any more"
        kept = place.config.with_name("kept")
        shutil.copytree(folder, kept)
        DAMAGES[how](path)
        place.start()
        place.deliveries.watch()
        came = waited_for(place, name)
        place.remarks.append(f"{how}: {came}")
        if came != GOES_ON_WITHOUT:
            said = place.service.said()
            assert place.service.stop() == int(came == REFUSED), said
            assert kind not in FIGURES, said
            assert "Traceback" not in said, said
            shutil.rmtree(folder)
            shutil.copytree(kept, folder)
            place.start()
        elif kind == "held":
            path.write_bytes((kept / path.relative_to(folder)).read_bytes())  # not read yet
        shutil.rmtree(kept)
        yield

    return act


def waited_for(place, name):
    """What comes of a damaged file of a pipeline, in words."""

    def is_over():
        missing = place.deliveries.missing()
        return not missing or (missing == {name} and "estore" in place.service.said())

    ended = place.until_ended_or(is_over)
    if ended is None and not place.deliveries.missing():
        return GOES_ON_WITHOUT
    said = place.service.said()
    assert "estore" in said, said
    return STANDS if ended is None else REFUSED


FAULTS = (
    Fault("disk full", full, (GOES_ON, 1), needs="the right to mount"),
    *(
        Fault(
            f"newest file of {kind} damaged",
            damaged(kind),
            words=MAY_GO_ON if kind in FIGURES else MAY_REFUSE,
        )
        for kind in KINDS
    ),
)
