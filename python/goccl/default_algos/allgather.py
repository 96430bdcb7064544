"""All-gather among several hosts."""

from ..language.program import CollectiveProgram
from ..language.rank import Buffer, Rank
from ..language.spec import AlgoSpec
from ._hosts import Hosts, program


def allgather_multi_nodes(spec: AlgoSpec) -> CollectiveProgram:
    """An all-gather: every rank sends its chunk to its host and to its counterparts on the other hosts, which pass it
    on within theirs.

    Each chunk crosses the network once for each other host. Scratch has a slot for the packets of every rank's chunk.
    """
    with program(spec, "allgather") as p:
        h = Hosts(spec)
        scratch = [Buffer(r, h.n) for r in range(h.n)]
        for r in range(h.n):
            rank = Rank(r)
            own, output = rank.get_input_buffer()[0:1], rank.get_output_buffer()
            if not p.in_place:
                rank.copy(output[r:r + 1], own, tb_group=h.group(h.n))
            if h.hosts > 1:
                rank.copy_packets(scratch[r][r:r + 1], own, tb_group=h.group(r))
            for c in h.counterparts(r):
                h.port[r, c].read_put_packets(scratch[c][r:r + 1], scratch[r][r:r + 1], tb_group=h.group(r))
            for i in h.neighbours(r):
                h.memory[r, i].put_packets(scratch[i][r:r + 1], own, tb_group=h.group(i))
                for c in h.counterparts(r):
                    h.memory[r, i].read_put_packets(scratch[i][c:c + 1], scratch[r][c:c + 1], tb_group=h.group(i))
        for r in range(h.n):
            output = Rank(r).get_output_buffer()
            for i in range(h.n):
                if i != r:
                    Rank(r).unpack_packets(output[i:i + 1], scratch[r][i:i + 1], tb_group=h.group(i))
    return p
