"""Whether kernels/recurrence.cu does with a GPU's registers, by what ptxas says."""

import re

import pytest
from host.start import FEW, TYPES, compile_as_cupy, geometries_of, instances

pytestmark = pytest.mark.once


@pytest.mark.parametrize("architecture", [70, 80, 90])
@pytest.mark.parametrize("dtype", TYPES)
def test_nvrtc_compiles_without_spilling_registers(dtype, architecture):
    # a deeper ring takes as many
    few = [g for g in geometries_of(architecture) if g in FEW.values()]
    names = list(instances(few, [dtype]))
    options = f"-arch=sm_{architecture}", "--ptxas-options=-v"
    *_, log = compile_as_cupy(architecture, names, *options)
    assert log.count(" 0 bytes spill stores") == len(names), log


def test_all_cards_that_copy_ahead_get_the_same_code():
    names = list(instances([FEW[2]], TYPES[2:3]))
    older, newer = (
        compile_as_cupy(architecture, names, f"-arch=compute_{architecture}")[0]
        for architecture in (80, 90)
    )
    head = re.compile(r"\.(target|version).*")
    assert head.sub("", older) == head.sub("", newer)
