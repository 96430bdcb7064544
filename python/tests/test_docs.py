"""The Python blocks of docs/python.md."""

import os
import re

import pytest

import jobs

with open(os.path.join(jobs.ROOT, "docs", "python.md"), encoding="utf-8") as f:
    BLOCKS = re.findall(r"^```python skip: python/tests/test_docs\.py runs it\n(.*?)^```", f.read(), re.S | re.M)


def test_there_are_blocks():
    assert len(BLOCKS) >= 5


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_block(block):
    p = jobs.python(block)
    assert p.returncode == 0, p.stderr
    assert not p.stderr
