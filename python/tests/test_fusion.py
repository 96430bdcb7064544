"""Fused all-reduces."""

import numpy as np
import pytest

import goccl
import jobs


def _reference(inputs, residual, weight, epsilon=1e-6):
    z = sum(x.astype(np.float64) for x in inputs) + residual
    return z, z / np.sqrt((z * z).mean(axis=1, keepdims=True) + epsilon) * weight


def _fused(rank, n, uid):
    c = jobs.communicator(rank, n, uid)
    f = c.fusion()
    for dtype, unit in ((np.float32, 1e-5), (np.float16, 1e-2)):
        for rows, hidden in ((1, 8), (3, 264), (5, 4096)):
            r = np.random.default_rng(rows * hidden)
            inputs = [r.standard_normal((rows, hidden)).astype(dtype) for _ in range(n)]
            residual = r.standard_normal((rows, hidden)).astype(dtype)
            weight = r.standard_normal(hidden).astype(dtype)
            z, norm = _reference(inputs, residual, weight)
            out, got = np.zeros_like(residual), np.zeros_like(residual)
            quant, scales = np.zeros((rows, hidden), np.int8), np.zeros(rows, np.float32)
            for algorithm in ("", "apart"):
                f.all_reduce(inputs[rank], hidden=hidden, residual=residual, residual_out=out, weight=weight, norm=got,
                             quant=quant, scale_out=scales, algorithm=algorithm)
                np.testing.assert_allclose(out, z, unit, unit * 4)
                np.testing.assert_allclose(got, norm, unit, unit * 4)
                np.testing.assert_allclose(scales, np.abs(got.astype(np.float32)).max(axis=1) / 127, 1e-5)
                assert np.abs(quant - got / scales[:, None]).max() <= 0.51
    x = np.ones((4, 8), np.float32)
    f.all_reduce(x, hidden=8, norm=x)  # in place
    np.testing.assert_allclose(x, 1, 1e-5)
    f.close()
    f.close()


@pytest.mark.parametrize("n", [1, 3])
def test_fused(n):
    jobs.run(n, _fused)


def test_arguments():
    c = jobs.communicator(0, 1, jobs.address())
    f = c.fusion()
    x = np.zeros((2, 16), np.float32)
    for text, call in {
        "no rows of 24": dict(hidden=24, norm=x),
        "norm holds": dict(hidden=16, norm=x[:1]),
        "no output": dict(hidden=16),
        "no algorithm": dict(hidden=16, norm=x, algorithm="fast"),
        "neither int8": dict(hidden=16, quant=x, scale=x),
        "either scale": dict(hidden=16, quant=np.zeros((2, 16), np.int8)),
        "multiple of 8": dict(hidden=2, norm=x),
    }.items():
        with pytest.raises(goccl.errors.InvalidArgument, match=text):
            f.all_reduce(x, **call)
    c.destroy()
