"""NVRTC without CuPy or a GPU: pip's nvidia-cuda-nvrtc, of any version."""

import ctypes
import sys
from collections.abc import Sequence
from pathlib import Path


class NVRTC:
    """One version of the compiler."""

    def __init__(self, path: Path):
        for builtins in path.parent.glob("libnvrtc-builtins.so*"):
            ctypes.CDLL(str(builtins))
        self.library = ctypes.CDLL(str(path))

    def call(self, name: str, *args: object) -> int:
        return getattr(self.library, f"nvrtc{name}")(*args)

    def text(self, program: ctypes.c_void_p, what: str) -> str:
        size = ctypes.c_size_t()
        self.call(f"Get{what}Size", program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        self.call(f"Get{what}", program, text)
        return text.value.decode()

    def architectures(self) -> set[int]:
        count = ctypes.c_int()
        assert self.call("GetNumSupportedArchs", ctypes.byref(count)) == 0
        array = (ctypes.c_int * count.value)()
        assert self.call("GetSupportedArchs", array) == 0
        return set(array)

    def compile(
        self, code: str, names: Sequence[str], options: Sequence[str]
    ) -> tuple[str, dict[str, str], str]:
        """(PTX, its symbols of the template instances `names`, what the compiler said).

        Without an error PTX is not empty, unless `options` ask for a real architecture.
        """
        program = ctypes.c_void_p()
        reference = ctypes.byref(program)
        source = code.encode(), b"recurrence.cu"
        assert self.call("CreateProgram", reference, *source, 0, None, None) == 0
        for name in names:
            assert self.call("AddNameExpression", program, name.encode()) == 0
        array = (ctypes.c_char_p * len(options))(*map(str.encode, options))
        status = self.call("CompileProgram", program, len(options), array)
        log = self.text(program, "ProgramLog")
        assert status == 0, log
        symbols = {name: self.symbol(program, name) for name in names}
        ptx = self.text(program, "PTX")
        self.call("DestroyProgram", reference)
        return ptx, symbols, log

    def symbol(self, program: ctypes.c_void_p, name: str) -> str:
        symbol = ctypes.c_char_p()
        found = self.call(
            "GetLoweredName", program, name.encode(), ctypes.byref(symbol)
        )
        assert found == 0, name
        return symbol.value.decode()


def compiler(architecture: int) -> NVRTC | None:
    """One of those installed that knows the architecture, e.g. 90."""
    pattern = "nvidia/*/lib/libnvrtc.so.*"
    found = {path for entry in sys.path for path in Path(entry).glob(pattern)}
    compilers = map(NVRTC, sorted(found))
    return next((c for c in compilers if architecture in c.architectures()), None)
