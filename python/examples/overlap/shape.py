"""Sizes."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass
class Shape:
    """rows of a rank, in chunks; C is rows·n × columns, and inner is the other dimension; the other way inner and
    columns change places. tile is the rows and columns of a tile."""

    rows: int
    inner: int
    columns: int
    chunks: int
    tile: tuple[int, int]

    def __post_init__(self) -> None:
        part = self.rows // self.chunks
        if part * self.chunks != self.rows or part % self.tile[0]:
            raise ValueError(f"{self.rows} rows of a rank in {self.chunks} chunks: a chunk must be whole tiles of "
                             f"{self.tile[0]} rows")
        for name in ("inner", "columns"):
            if getattr(self, name) % self.tile[1]:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be a multiple of {self.tile[1]}")
