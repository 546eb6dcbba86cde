"""bfloat16 is read as it is, computed in float32, and rounded once."""

import numpy as np
import pytest
import torch
from numba import njit

from espnet_srupp.recurrence import recurrence
from espnet_srupp.recurrence.bfloat16 import put, widen
from espnet_srupp.recurrence.compiled import FLAGS

SHAPES = [(1, 1, 2, [1]), (63, 3, 64, [63, 0, 1]), (20, 2, 6, [20, 7])]


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_results_are_those_of_float32_rounded_bit_by_bit(shape, bidirectional, mask):
    T, B, D, lengths = shape
    u, x, dh = (torch.randn(*s).bfloat16() for s in ((T, B, 3, D), *2 * [(T, B, D)]))
    v, b, c0 = torch.randn(2, D), torch.randn(2, D), torch.randn(B, D)
    mask_c = torch.rand(B, D) if mask else None

    def results(dtype):
        given = [t.detach().requires_grad_() for t in (u.to(dtype), x.to(dtype), v, b)]
        given.append(c0.clone().requires_grad_())
        h, c_last = recurrence(
            *given,
            lengths=torch.tensor(lengths),
            bidirectional=bidirectional,
            mask_c=mask_c,
        )
        torch.autograd.backward([h, c_last], [dh.to(dtype), torch.ones_like(c_last)])
        return [h, c_last, *(t.grad for t in given)]

    names = "h", "c_last", "du", "dx", "dv", "db", "dc0"
    for name, half, whole in zip(
        names, results(torch.bfloat16), results(torch.float32), strict=True
    ):
        assert half.equal(whole.to(half.dtype)), name


@njit(error_model="numpy", fastmath=FLAGS)  # no cache, which knows tests/ alone
def widen_all(bits, values):
    for i in range(bits.size):
        values[i] = widen(bits[i])


@njit(error_model="numpy", fastmath=FLAGS)  # no cache, which knows tests/ alone
def put_all(values, bits):
    for i in range(bits.size):
        put(bits, i, values[i])


def test_all_bits_survive_and_numbers_round_as_torch_rounds():
    bits = np.arange(2**16, dtype=np.uint16)
    values = np.empty(2**16, np.float32)
    widen_all(bits, values)
    exact = torch.from_numpy(bits).view(torch.bfloat16)
    number = ~exact.isnan()
    assert torch.from_numpy(values)[number].equal(exact.float()[number])
    # to the left and right of each number, halfway and next to halfway
    for offset in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF):
        wide = (bits.astype(np.uint32) << 16 | offset).view(np.float32)
        rounded = np.empty_like(bits)
        put_all(wide, rounded)
        found = torch.from_numpy(rounded).view(torch.bfloat16)
        expected = torch.from_numpy(wide).bfloat16()
        assert found.isnan().equal(expected.isnan())
        assert found[~found.isnan()].equal(expected[~found.isnan()])
