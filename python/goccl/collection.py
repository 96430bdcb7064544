"""Collections of algorithms, and what selects among them."""

from collections.abc import Callable, Iterator
from typing import Any

from ._types import DataType
from .algorithm import Algorithm
from .builtin import default_algorithms


class CollectiveRequest:
    """What a selector is asked: the job, the collective and the message, sizes in bytes."""

    def __init__(self, collective: str, message_size: int, dtype: DataType, world_size: int, n_ranks_per_node: int,
                 rank: int, input_buffer: int = 0, output_buffer: int = 0, stream: int = 0,
                 hints: dict[str, Any] | None = None) -> None:
        self.collective, self.message_size, self.dtype = collective, message_size, dtype
        self.world_size, self.n_ranks_per_node, self.rank = world_size, n_ranks_per_node, rank
        self.input_buffer, self.output_buffer, self.stream = input_buffer, output_buffer, stream
        self.hints = dict(hints or {})


class AlgorithmCollection:
    """Algorithms, in order, and by collective."""

    def __init__(self, algorithms: "list[Algorithm] | None" = None) -> None:
        self._all: list[Algorithm] = list(algorithms or [])
        self._selectors: list[Callable[..., Any]] = []

    def register_algorithm(self, collective: str, algo_name: str, algorithm: Algorithm) -> None:
        """Adds an algorithm under a collective and a name."""
        algorithm.collective, algorithm.name = collective, algo_name
        self._all.append(algorithm)

    def get_by_collective(self, collective: str) -> "list[Algorithm]":
        """The algorithms of one collective."""
        return [a for a in self._all if a.collective == collective]

    def select(self, request: "CollectiveRequest") -> Algorithm | None:
        """What the user's selector, then the fallback selector choose; without either the first whose range holds the
        message, programs first."""
        by: dict[str, dict[str, Algorithm]] = {}
        for a in self._all:
            by.setdefault(a.collective, {})[a.name] = a
        for s in self._selectors:
            chosen: Algorithm | None = s(by, request)
            if chosen is not None:
                return chosen
        fits = [a for a in self.get_by_collective(request.collective)
                if a.message_size_range[0] <= request.message_size <= a.message_size_range[1]
                and a.constraint.world_size in (0, request.world_size)]
        return next((a for a in fits if a.is_dsl_algorithm()), fits[0] if fits else None)

    def to_list(self) -> "list[Algorithm]":
        """All of them."""
        return list(self._all)

    def __iter__(self) -> Iterator[Algorithm]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, i: int) -> Algorithm:
        return self._all[i]


class _Reset:
    """builder.reset() forgets what the builder has gathered. AlgorithmCollectionBuilder.reset() does nothing: builders
    share nothing."""

    def __get__(self, builder: "AlgorithmCollectionBuilder | None", cls: type) -> Callable[[], None]:
        return builder._start if builder is not None else lambda: None


class AlgorithmCollectionBuilder:
    """Gathers algorithms into a collection."""

    reset = _Reset()

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._builders: list[Any] = []
        self._user: Callable[..., Any] | None = None
        self._fallback: Callable[..., Any] | None = None

    def add_algorithm_builder(self, builder: Any) -> None:
        """An Algorithm, an AlgorithmBuilder, or something else whose build() gives an Algorithm."""
        self._builders.append(builder)

    def set_algorithm_selector(self, selector: Callable[..., Any]) -> None:
        """selector(algorithms by collective and name, request) → Algorithm or None, asked first."""
        self._user = selector

    def set_fallback_algorithm_selector(self, selector: Callable[..., Any]) -> None:
        """The selector that is asked when the first gives None."""
        self._fallback = selector

    def build(self) -> AlgorithmCollection:
        """The collection of what was added."""
        c = AlgorithmCollection([b if isinstance(b, Algorithm) else b.build() for b in self._builders])
        c._selectors = [s for s in (self._user, self._fallback) if s]
        return c

    def build_default_algorithms(self, scratch_buffer: int = 0, scratch_buffer_size: int = 0,
                                 rank: int = 0) -> AlgorithmCollection:
        """goccl's collectives under the names of MSCCL++'s default algorithms.

        A name selects a collective and a message range; which kernel runs is goccl's choice by a measured table, for
        each size. Where a name says nvls, the tag nvls is 0 and doc says so: multicast is off, the unicast form runs.
        The scratch buffer is not needed: scratch is goccl's own.
        """
        c = self.build()
        c._all += default_algorithms()
        return c
