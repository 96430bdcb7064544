"""Ranks on several hosts: GOCCL_HOSTID tells one machine's processes apart, as in NCCL."""

import os

import jobs
import test_nccl


def _on_hosts(rank, n, uid, hosts):
    os.environ["GOCCL_HOSTID"] = f"host {hosts[rank]}"
    test_nccl._collectives(rank, n, uid)


def test_collectives_across_hosts():
    hosts = [0, 0, 1]
    jobs.run(len(hosts), _on_hosts, hosts)


def _all_to_all_v(rank, n, uid, hosts):
    os.environ["GOCCL_HOSTID"] = f"host {hosts[rank]}"
    test_nccl._alltoallv(rank, n, uid)


def test_all_to_all_v_across_hosts():
    """The matrices of the call let ranks of one host send together; its rows alone do not."""
    hosts = [0, 0, 1, 1, 1]
    jobs.run(len(hosts), _all_to_all_v, hosts)
