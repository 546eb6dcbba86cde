"""PTX as C++: what NVRTC makes of a kernel, to be run on a CPU (ptx.h).

Each instruction becomes a call of the function with its name, so that one which ptx.h
does not have is an error of the C++ compiler.
"""

import re

REGISTERS = {"pred": "bool", "b16": "u16", "b32": "u32", "b64": "u64"}
REGISTERS |= {"f32": "f32", "f64": "f64"}
KERNEL = re.compile(r"\.entry (\w+)\(.*?\n\{\n(.*?)\n\}\n", re.DOTALL)
OPERAND = re.compile(
    r"""  %(?P<special>(?:ctaid|tid)\.x|temp)
        | %(?P<kind>[a-z]+)(?P<number>\d+)
        | 0(?P<float>[fd])(?P<bits>[0-9A-F]+)
        | \w+_param_(?P<parameter>\d+)""",
    re.VERBOSE,
)

TEMPLATE = """
static void walk{name}(const u64 *param, u32 ctaid_x, u32 tid_x) {{
{code}
}}
extern "C" const char *{name}(u32 blocks, const u64 *param) {{
return run(walk{name}, {bytes}, blocks, param);
}}
"""


def translate(ptx: str) -> str:
    """C++ with a function for each kernel, (blocks, parameters) -> fault or ""."""
    return '#include "ptx.h"\n' + "".join(
        function(name, body.splitlines()) for name, body in KERNEL.findall(ptx)
    )


def function(name: str, lines: list[str]) -> str:
    code, shared_bytes = ["u32 temp;"], 0
    for line in lines:
        line = line.split("//")[0].strip()
        if found := re.match(r"\.reg \.(\w+)\s+%(\w+)<(\d+)>;", line):
            kind, register, count = found.groups()
            code.append(f"{REGISTERS[kind]} {register}[{count}];")
        elif found := re.match(r"\.shared \.align (\d+) \.b8 (\w+)\[(\d+)\];", line):
            align, symbol, size = found.groups()
            shared_bytes += -shared_bytes % int(align)
            code.append(f"const u64 {symbol} = {shared_bytes};")
            shared_bytes += int(size)
        elif found := re.match(r"\$(\w+):", line):
            code.append(f"{found[1]}:;")
        elif line not in ("", "{", "}") and not line.startswith((".reg", ".pragma")):
            code.append(statement(line.removesuffix(";")))
    return TEMPLATE.format(name=name, code="\n".join(code), bytes=shared_bytes)


def statement(line: str) -> str:
    """One instruction, with or without a predicate."""
    guard = ""
    if found := re.match(r"@(!?)%p(\d+)\s+(.*)", line):
        guard, line = f"if ({found[1]}p[{found[2]}]) ", found[3]
    opcode, rest = re.fullmatch(r"(\S+)\s*(.*)", line).groups()
    if opcode == "ret":
        return f"{guard}return;"
    if opcode in ("bra", "bra.uni"):
        return f"{guard}goto {rest.strip().removeprefix('$')};"
    first, *others = re.findall(r"\{.*?\}|\[.*?\]|[^\s,]+", rest) or [""]
    name = opcode.replace(".", "_")
    if opcode.startswith("mov"):
        name += "_unpack" if first.startswith("{") else ""
        name += "_pack" if others[0].startswith("{") else ""
    if opcode.startswith(("ld.global", "ld.shared", "st.")):
        bits = re.search(r"\d+$", opcode)[0]
        name = "_".join(opcode.split(".")[:2]) + f"<{int(bits) // 8}>"
        if opcode.startswith("ld"):
            first, others = others[0], [first]
    operands = ", ".join(operand(text) for text in (first, *others) if text)
    return f"{guard}{name}({operands});"


def operand(text: str) -> str:
    return OPERAND.sub(in_cpp, text.strip("[]{}"))


def in_cpp(found: re.Match) -> str:
    if found["special"]:
        return found["special"].replace(".", "_")
    if found["kind"]:
        return f"{found['kind']}[{found['number']}]"
    if found["parameter"]:
        return f"param[{found['parameter']}]"
    if found["float"] == "f":
        return f"as<f32>(0x{found['bits']}u)"
    return f"as<f64>(0x{found['bits']}ull)"
