"""The CPU's loops find numbers that lie farther than 32 bits can tell."""

import subprocess
import sys

import pytest

# one row of a large batch is computed, so that few pages of its arrays become real
SCRIPT = """
import ctypes

import numpy as np
import torch

from espnet_srupp.recurrence import recurrence, team

PR_SET_THP_DISABLE = 41  # of linux/prctl.h: pages of 2 MiB would hold other rows too
ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)
T, B, D, LAST = 1024, 2048, 342, 3
assert 3 * T * B * D > 2**31


def results(u, x, dh):
    u, x = u.requires_grad_(), x.requires_grad_()
    h, _ = recurrence(u, x, v, b, bidirectional=True)
    return [t[-LAST:, -1] for t in (h, *torch.autograd.grad(h, (u, x), dh))]


v, b = torch.randn(2, 2, D)
ends = [torch.randn(LAST, 1, *s, D).bfloat16() for s in ((3,), (), ())]
expected = results(*ends)
wholes = []
for end in ends:
    whole = torch.from_numpy(np.zeros((T, B, *end.shape[2:]), np.uint16))
    wholes.append(whole.view(torch.bfloat16))
    # frames of zeros before them do not change these
    wholes[-1][-LAST:, -1:] = end
jobs = []
team.share = lambda n, work: [jobs.append(n), work(B - 1, B)]
found = results(*wholes)
assert jobs == [2 * B, 2 * B]
for one, other in zip(found, expected, strict=True):
    assert one.equal(other)
"""


@pytest.mark.once
@pytest.mark.skipif(sys.platform != "linux", reason="needs memory that is not real yet")
def test_frames_and_gradients_beyond_32_bits_are_those_of_the_frames_alone():
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, timeout=120)
