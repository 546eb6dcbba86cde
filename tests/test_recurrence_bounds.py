"""The CPU's loops stay within their arrays, which compiled code does not see to."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import torch

from espnet_srupp.recurrence import recurrence, tiles

torch.set_num_threads(1)
T, B, D = 5, 3, 34
lengths = torch.tensor([5, 0, 1])
u, x, v, b = (torch.randn(*s, D) for s in ((T, B, 3), (T, B), (2,), (2,)))
q, weight = torch.randn(T, B, 8), torch.randn(3 * D, 8)
for bidirectional in (False, True):
    # states are saved for a gradient alone
    recurrence(u, x, v, b, lengths=lengths, bidirectional=bidirectional)
    given = [t.clone().requires_grad_() for t in (u, x, v, b)]
    h, _ = recurrence(*given, lengths=lengths, bidirectional=bidirectional)
    h.sum().backward()
    with torch.no_grad():
        tiles.project(q, weight, x, v, b, lengths, bidirectional)
"""


@pytest.mark.once
def test_no_loop_reads_or_writes_beyond_its_arrays(tmp_path):
    # a folder of its own: numba keeps code by types, not by this
    checked = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", SCRIPT], env=os.environ | checked, check=True)
