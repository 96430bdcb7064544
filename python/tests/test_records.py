"""The flight recorder."""

import json
import pickle
import threading
import time

import numpy as np
import pytest

import jobs
from goccl import errors, records


def _late(rank, n, uid):
    c = jobs.communicator(rank, n, uid)
    a = np.ones(256, np.float32)
    c.allreduce(a, a)
    if rank == 1:
        time.sleep(4)  # longer than GOCCL_VERDICT_AFTER
    thread = threading.Thread(target=c.allreduce, args=(a, a))
    thread.start()
    if rank == 0:
        end = time.monotonic() + 60
        while not [v for v in records.verdicts() if v["kind"] == "missing"]:
            assert time.monotonic() < end, records.records()
            time.sleep(0.02)
        verdict = records.verdicts()[0]
        assert (verdict["rank"], verdict["operation"], verdict["number"]) == (1, "all_reduce", 2)
    thread.join(90)
    assert not thread.is_alive()
    mine = records.records()["communicators"][0]
    assert [o["state"] for o in mine["operations"]] == ["ended", "ended"]
    assert mine["rank"] == rank and mine["operations"][0]["count"] == 256
    dump = pickle.loads(records.dump("torch"))
    assert dump["version"] == "2.10" and len(dump["entries"]) == 2
    assert dump["entries"][0]["profiling_name"] == "nccl:all_reduce"
    assert dump["entries"][0]["process_group"] == (mine["id"], "undefined")
    assert dump["pg_config"][mine["id"]]["ranks"] == "[0, 1]"
    assert json.loads(records.dump("trace"))["traceEvents"]
    with pytest.raises(errors.InvalidArgument):
        records.dump("nothing")
    c.allreduce(a, a)


def test_records_and_verdicts():
    jobs.run(2, _late)
