"""ThreadBlockGroup: several thread blocks that share one operation."""

from collections.abc import Iterable
from typing import Any

from .. import errors

__all__ = ["ThreadBlockGroup", "blocks"]


class ThreadBlockGroup:
    """Thread blocks of a rank in the order of their slices."""

    def __init__(self, tb_list: "list[int]") -> None:
        self.tb_list: list[int] = list(tb_list)

    def numtb(self) -> int:
        """How many there are."""
        return len(self.tb_list)

    def tb_overlap(self, tb: int) -> bool:
        """Whether tb is one of them."""
        return tb in self.tb_list


def blocks(tb: int | None, tb_group: ThreadBlockGroup | Iterable[int] | None) -> dict[str, Any]:
    """The fields of a command that say which thread blocks execute it."""
    if tb is not None and tb_group is not None:
        raise errors.InvalidArgument("give tb or tb_group, not both")
    if tb_group is not None:
        return {"group": list(tb_group.tb_list if isinstance(tb_group, ThreadBlockGroup) else tb_group)}
    return {} if tb is None else {"tb": tb}


def limit(count: tuple[int, int, int] | None) -> dict[str, Any]:
    """The field of a command that limits its chunks: a count is of (sender, receiver, first chunk of the block)."""
    return {} if count is None else {"count": {"src": count[0], "dst": count[1], "index": count[2]}}
