"""All-reduce among several hosts."""

from .. import errors
from ..language.program import CollectiveProgram
from ..language.rank import Buffer, Rank
from ..language.spec import AlgoSpec
from ._hosts import Hosts, program
from .reducescatter import scatter


def allreduce_multi_nodes(spec: AlgoSpec, thread_block_group_size: int = 1) -> CollectiveProgram:
    """An all-reduce in place: a reduce-scatter, then every rank sends its chunk to its host and to its counterparts,
    which pass it on."""
    if not spec.collective.inplace:
        raise errors.InvalidArgument(f"{spec.name}: allreduce_multi_nodes works in place: AllReduce(n, 1, True)")
    with program(spec, "allreduce") as p:
        h = Hosts(spec, thread_block_group_size)
        scatter(h, None)
        final = [Buffer(r, h.n) for r in range(h.n)]
        for r in range(h.n):
            rank, blocks = Rank(r), h.group(r // h.per_host)
            own = rank.get_input_buffer()[r:r + 1]
            if h.hosts > 1:
                rank.copy_packets(final[r][r:r + 1], own, tb_group=blocks)
            for c in h.counterparts(r):
                h.port[r, c].read_put_packets(final[c][r:r + 1], final[r][r:r + 1], tb_group=blocks)
            for i in h.neighbours(r):
                h.memory[r, i].put_packets(final[i][r:r + 1], own, tb_group=blocks)
        for r in range(h.n):
            rank, data = Rank(r), Rank(r).get_input_buffer()
            for c in h.counterparts(r):
                blocks = h.group(c // h.per_host)
                for i in h.neighbours(r):
                    h.memory[r, i].read_put_packets(final[i][c:c + 1], final[r][c:c + 1], tb_group=blocks)
            for c in range(h.n):
                if c != r:
                    rank.unpack_packets(data[c:c + 1], final[r][c:c + 1], tb_group=h.group(c // h.per_host))
    return p
