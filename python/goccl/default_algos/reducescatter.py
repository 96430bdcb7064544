"""Reduce-scatter among several hosts, and the first half of the all-reduce."""

from ..language.program import CollectiveProgram
from ..language.rank import BaseBuffer, Buffer, Rank
from ..language.spec import AlgoSpec
from ._hosts import Hosts, program


def scatter(h: Hosts, outputs: list[BaseBuffer] | None) -> None:
    """Reduces chunk r of all inputs at rank r, into outputs[r], or, without outputs, in place of the input chunk.

    1. Within a host the rank of local number l collects the chunks of all ranks with that number, and reduces each.
    2. It sends what is not its own chunk to the counterpart whose chunk it is.
    3. That one reduces the other hosts' parts.
    Group k of a rank's thread blocks works on the chunk of the counterpart on host k.
    """
    local, remote = (h.per_host - 1) * h.hosts, h.hosts - 1
    incoming = [Buffer(r, max(local, 1)) for r in range(h.n)]
    parts = [Buffer(r, max(2 * remote, 1)) for r in range(h.n)]
    partial = [Rank(r).get_input_buffer() if outputs is None else Buffer(r, h.hosts) for r in range(h.n)]

    def slot(sender: int, owner: int, host: int) -> int:
        position = h.neighbours(owner).index(sender)
        return position * h.hosts + host

    for r in range(h.n):
        source = Rank(r).get_input_buffer()
        for i in h.neighbours(r):
            for host in range(h.hosts):
                c, at = host * h.per_host + i % h.per_host, slot(r, i, host)
                h.memory[r, i].put_packets(incoming[i][at:at + 1], source[c:c + 1], tb_group=h.group(host))
    for r in range(h.n):
        rank, own_host = Rank(r), r // h.per_host
        for host in range(h.hosts):
            c, blocks = host * h.per_host + r % h.per_host, h.group(host)
            chunk = rank.get_input_buffer()[c:c + 1]
            into = chunk
            if outputs is not None:
                into = outputs[r][0:1] if host == own_host else partial[r][host:host + 1]
            others = [incoming[r][slot(i, r, host):slot(i, r, host) + 1] for i in h.neighbours(r)]
            if others:
                rank.reduce(chunk, others, tb_group=blocks, dst_chunk=into, packet=True)
            elif into is not chunk:
                rank.copy(into, chunk, tb_group=blocks)
            if host != own_host:
                out = host - (host > own_host)
                rank.copy_packets(parts[r][out:out + 1], into, tb_group=blocks)
                at = remote + own_host - (own_host > host)
                h.port[r, c].read_put_packets(parts[c][at:at + 1], parts[r][out:out + 1], tb_group=blocks)
    for r in range(h.n):
        if remote:
            chunk = Rank(r).get_input_buffer()[r:r + 1] if outputs is None else outputs[r][0:1]
            Rank(r).reduce(chunk, [parts[r][k:k + 1] for k in range(remote, 2 * remote)],
                           tb_group=h.group(r // h.per_host), packet=True)


def reducescatter_multi_nodes(spec: AlgoSpec, thread_block_group_size: int = 1) -> CollectiveProgram:
    """A reduce-scatter: within each host first, so that each chunk crosses the network once for each other host."""
    with program(spec, "reducescatter") as p:
        h = Hosts(spec, thread_block_group_size)
        scatter(h, None if p.in_place else [Rank(r).get_output_buffer() for r in range(h.n)])
    return p
