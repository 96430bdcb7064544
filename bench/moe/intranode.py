"""DeepEP's own test of its intranode kernels, unchanged, with goccl's Buffer in the place of DeepEP's.

    python bench/moe/intranode.py --num-processes N

$DEEP_EP is a folder with DeepEP's tests. The processes that the test starts import this file too, so deep_ep is
goccl.moe there as well.
"""

from __future__ import annotations

import argparse
import os
import sys

import goccl.moe

tests = os.path.join(os.environ.get("DEEP_EP", ""), "tests")
if not os.path.isfile(os.path.join(tests, "test_intranode.py")):
    sys.exit("DEEP_EP names no folder that has DeepEP's tests/test_intranode.py")
sys.modules["deep_ep"] = goccl.moe
sys.path.insert(0, tests)

import test_intranode  # noqa: E402
import torch  # noqa: E402


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--num-processes", type=int, default=torch.cuda.device_count())
    p.add_argument("--num-tokens", type=int, default=4096)
    p.add_argument("--hidden", type=int, default=7168)
    p.add_argument("--num-topk", type=int, default=8)
    p.add_argument("--num-experts", type=int, default=256)
    p.set_defaults(allow_mnnvl=False, use_fabric=False)
    args = p.parse_args()
    torch.multiprocessing.spawn(test_intranode.test_loop, args=(args.num_processes, args), nprocs=args.num_processes)
    print("test_intranode passed")


if __name__ == "__main__":
    main()
