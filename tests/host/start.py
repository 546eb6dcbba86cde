"""Starts kernels of kernels/recurrence.cu on the host, as C++ or from NVRTC's PTX."""

import ctypes
import itertools
import subprocess
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

import pytest
import torch
from host import nvrtc, ptx

from espnet_srupp.recurrence import cuda

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "kernels" / "recurrence.cu"
TYPES = list(cuda.NAMES)
# channels and frames of what `cuda.choose` returns for the sizes of kernels/README.md
CHOSEN = [(1, 32), (2, 32), (2, 24), (2, 16), (2, 12), (2, 8), (4, 8), (4, 4)]
# compiling is most of the tests' time, and a deeper ring is but a longer loop: these on
# the host, and few where no state is saved, where copies are small, and on cards that
# copy nothing ahead
GEOMETRIES = [(1, 32), (1, 16), (2, 12), (2, 8), (4, 8), (4, 4)]
FEW = {1: (1, 16), 2: (2, 8), 4: (4, 4)}
FITTING = (1, cuda.WORD, cuda.WIDEST)
FLAGS = ["-std=c++17", "-march=native", "-fno-strict-aliasing", "-ffp-contract=off"]
FLAGS += ["-fPIC", "-shared", f"-I{HERE}"]
STRICT = ["-O1", "-Wall", "-Werror", "-Wno-unknown-pragmas"]


def serving(
    geometry: tuple[int, int],
    fitting: int,
    io: int,
    together: int,
    geometries: Collection[tuple[int, int]] = GEOMETRIES,
) -> cuda.Geometry:
    """The geometry, or one of `FEW` if it is not among those or does not fit."""
    channels, frames = geometry
    copied = cuda.copied(fitting, io)
    most = max(channels for channels, _ in geometries)
    while channels > most or channels * io > min(copied, cuda.WIDE):
        channels //= 2
    if copied < cuda.WIDEST or (channels, frames) not in geometries:
        channels, frames = FEW[channels]
    return cuda.Geometry(channels, max(frames, 2 * together), copied)


def instances(
    geometries: Collection[tuple[int, int]] = GEOMETRIES,
    dtypes: Collection[torch.dtype] = TYPES,
) -> Iterator[str]:
    """The kernels' names, as the launcher writes them, of all that tests start."""
    for dtype in dtypes:
        types = dtype, torch.float64 if dtype == torch.float64 else torch.float32
        for kernel, together in (("forward", 1), ("backward", cuda.EVERY)):
            served = {
                serving(geometry, fitting, dtype.itemsize, together, geometries)
                for geometry, fitting in itertools.product(geometries, FITTING)
            }
            for geometry in sorted(served):
                yield cuda.instance(kernel, *types, geometry, cuda.EVERY)
                if kernel == "forward" and geometry[:2] in FEW.values():
                    yield cuda.instance(kernel, *types, geometry, 0)


def geometries_of(architecture: int) -> Collection[tuple[int, int]]:
    """Of the host's those that `cuda.choose` may take there."""
    return [FEW[1], FEW[2]] if architecture < 80 else GEOMETRIES


def starter_of_source(folder: Path) -> Callable:
    """A function that starts an instance by its name, of the source as C++."""
    symbols = {name: f"kernel_{i}" for i, name in enumerate(instances())}
    macro = " ".join(f"INSTANCE({symbol}, {name})" for name, symbol in symbols.items())
    flags = [*STRICT, f"-DINSTANCES={macro}"]
    library = build(HERE / "harness.cpp", folder, flags)

    def start(name, blocks, args, tensors):
        values = [ctypes.c_longlong(arg) for arg in args]
        pointers = [ctypes.cast(ctypes.pointer(v), ctypes.c_void_p) for v in values]
        array = (ctypes.c_void_p * len(pointers))(*pointers)
        getattr(library, symbols[name])(blocks, array)

    return start


def starter_of_ptx(folder: Path, architecture: int) -> Callable:
    """The same of the PTX, which stops at an access out of bounds or unaligned."""
    names = list(instances(geometries_of(architecture)))
    code, symbols, _ = compile_as_cupy(
        architecture, names, f"-arch=compute_{architecture}"
    )
    source = folder / "kernels.cpp"
    source.write_text(ptx.translate(code))
    library = build(source, folder, ["-O0"])

    def start(name, blocks, args, tensors):
        spans = [number for t in tensors for number in (t.data_ptr(), t.nbytes)]
        library.allow((ctypes.c_ulonglong * len(spans))(*spans), len(tensors))
        kernel = getattr(library, symbols[name])
        kernel.restype = ctypes.c_char_p
        fault = kernel(blocks, (ctypes.c_ulonglong * len(args))(*args))
        assert not fault, f"{name}: {fault.decode()}"

    return start


def build(source: Path, folder: Path, flags: Sequence[str]) -> ctypes.CDLL:
    target = folder / "kernels.so"
    subprocess.run(["g++", *FLAGS, *flags, "-o", target, source], check=True)
    return ctypes.CDLL(str(target))


def compile_as_cupy(
    architecture: int, names: Sequence[str], *options: str
) -> tuple[str, dict[str, str], str]:
    """NVRTC's result for some instances, with the options that CuPy adds."""
    compiler = nvrtc.compiler(architecture)
    if compiler is None:
        pytest.skip(
            f"no NVRTC for sm_{architecture}: pip install nvidia-cuda-nvrtc-cu12"
        )
    own = ("-ftz=true", "--device-as-default-execution-space")
    options = [*cuda.OPTIONS, *own, *options]
    return compiler.compile(SOURCE.read_text(), names, options)
