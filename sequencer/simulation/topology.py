"""Routers of a transit-stub internet, in the manner of GT-ITM, and the delays between them.

"Decentralized Message Ordering for Publish/Subscribe Systems", section 4.1, simulates a topology of
10,000 routers made by GT-ITM. Here too, transit domains are joined at random, each of their routers
carries a few stub domains, and a stub domain is a small random network behind one gateway. Routers
have places in a plane, and the delay of a line is its length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import dijkstra

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# Sides of squares, in milliseconds of delay: a path across all of it takes about 100.
PLANE_MS = 80.0
TRANSIT_MS = 16.0
STUB_OFF_MS = 8.0
STUB_MS = 3.0
# Even two routers of one room are not reached in no time.
LINE_MS_MIN = 0.05


@dataclass(frozen=True, slots=True)
class Shape:
    """How many transit domains, routers in each, stub domains at each router, routers in those.

    The default has 10 * 10 * (1 + 3 * 33) = 10,000 routers.
    """

    domains: int = 10
    transits: int = 10
    stubs: int = 3
    stub_routers: int = 33

    @property
    def routers(self) -> int:
        """The number of all routers."""
        return self.domains * self.transits * (1 + self.stubs * self.stub_routers)


SMALL = Shape(domains=3, transits=4, stubs=2, stub_routers=6)


@dataclass(frozen=True, slots=True)
class Topology:
    """`lines`: symmetric, routers x routers, milliseconds; `domain`: router -> its transit domain.

    `stub`: router -> its stub domain, counted over everything, or -1 for a transit router.
    """

    lines: sparse.csr_matrix
    domain: Ints
    stub: Ints

    @property
    def routers(self) -> int:
        """The number of routers."""
        return len(self.stub)

    @property
    def stubs(self) -> int:
        """The number of stub domains."""
        return int(self.stub.max()) + 1

    def delays(self, sources: Sequence[int] | Ints) -> Floats:
        """Delays of the shortest paths, in milliseconds: sources x all routers."""
        delays_ms: Floats = dijkstra(self.lines, directed=False, indices=np.asarray(sources))
        return delays_ms


def transit_stub(rng: np.random.Generator, shape: Shape | None = None) -> Topology:
    """A random topology; equal generators give equal topologies."""
    return _Builder(rng, shape or Shape()).build()


class _Builder:
    def __init__(self, rng: np.random.Generator, shape: Shape) -> None:
        self.rng, self.shape = rng, shape
        self.places: list[Floats] = []
        self.stub: list[int] = []
        self.domain: list[int] = []
        self.pairs: set[tuple[int, int]] = set()

    def build(self) -> Topology:
        shape = self.shape
        cores = []
        for domain in range(shape.domains):
            centre = self.rng.uniform(0, PLANE_MS, 2)
            core = self._routers(shape.transits, centre, TRANSIT_MS, domain, -1)
            self._joined(core, 3.0)
            cores.append(core)
        for first, second in self._tree_and_more(shape.domains, 4.0):
            self._join(int(self.rng.choice(cores[first])), int(self.rng.choice(cores[second])))
        stub = 0
        for domain, core in enumerate(cores):
            for router in core:
                for _ in range(shape.stubs):
                    centre = self.places[router] + self.rng.uniform(-0.5, 0.5, 2) * STUB_OFF_MS
                    inside = self._routers(shape.stub_routers, centre, STUB_MS, domain, stub)
                    self._joined(inside, 3.5)
                    self._join(router, int(self.rng.choice(inside)))
                    stub += 1
        return Topology(self._lines(), np.array(self.domain), np.array(self.stub))

    def _routers(
        self, count: int, centre: Floats, side: float, domain: int, stub: int
    ) -> list[int]:
        first = len(self.places)
        self.places.extend(centre + self.rng.uniform(-0.5, 0.5, (count, 2)) * side)
        self.domain.extend([domain] * count)
        self.stub.extend([stub] * count)
        return list(range(first, first + count))

    def _joined(self, routers: list[int], degree: float) -> None:
        for first, second in self._tree_and_more(len(routers), degree):
            self._join(routers[first], routers[second])

    def _join(self, first: int, second: int) -> None:
        self.pairs.add((min(first, second), max(first, second)))

    def _tree_and_more(self, count: int, degree: float) -> list[tuple[int, int]]:
        """Lines of a connected random network with about this mean degree."""
        lines = {(int(self.rng.integers(at)), at) for at in range(1, count)}
        possible = count * (count - 1) // 2
        wanted = min(possible, round(count * degree / 2))
        while len(lines) < wanted:
            first, second = sorted(self.rng.integers(count, size=2).tolist())
            if first < second:
                lines.add((first, second))
        return sorted(lines)

    def _lines(self) -> sparse.csr_matrix:
        size = len(self.places)
        first, second = np.array(sorted(self.pairs)).T
        places = np.array(self.places)
        length = np.maximum(np.linalg.norm(places[first] - places[second], axis=1), LINE_MS_MIN)
        half = sparse.coo_matrix((length, (first, second)), shape=(size, size))
        return (half + half.T).tocsr()
