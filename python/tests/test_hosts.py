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
