"""Imports point one way, and few modules know ESPnet: read from the source."""

import ast
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "espnet_srupp"
# a module imports from its own package and from lower layers only
LAYERS = {
    "": 0,
    "kernels": 0,
    "compat": 0,
    "children": 0,
    "determinism": 0,
    "heap": 0,
    "hooks": 0,
    "mirroring": 0,
    "names": 0,
    "precision": 0,
    "ranges": 0,
    "recurrence": 1,
    "softmax": 1,
    "attention": 2,
    "pooling": 2,
    "subsampling": 2,
    "buckets": 3,
    "layer": 3,
    "padding": 3,
    "encoder": 4,
    "register": 5,
    "checkpoint": 5,
    "onnx": 5,
    "inference": 6,
    "run": 6,
    "task": 6,
    "recipe": 7,
    "profile": 8,
    "longform": 8,
}
PLUG = {"compat", "register", "run", "task", "profile"}


def module_name(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def imports(path):
    """Absolute names of all that a file imports, inside of functions too."""
    parents = path.relative_to(PACKAGE.parent).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = parents[: len(parents) + 1 - node.level] if node.level else ()
            origin = ".".join([*origin, *([node.module] if node.module else [])])
            # `from espnet_srupp import register` imports a module
            yield from (f"{origin}.{alias.name}" for alias in node.names)


IMPORTS = {
    module_name(path): set(imports(path))
    for path in PACKAGE.rglob("*.py")
    if "__pycache__" not in path.parts
}


def unit(name):
    """The module or sub-package right under espnet_srupp, "" for itself."""
    return name.split(".")[1] if "." in name else ""


def offenders(wrong):
    """Modules with the imports that are wrong in them, none if all is well."""
    found = {m: {n for n in names if wrong(m, n)} for m, names in IMPORTS.items()}
    return {module: names for module, names in found.items() if names}


def test_every_module_has_a_layer():
    assert {unit(module) for module in IMPORTS} <= LAYERS.keys()


def test_imports_point_to_lower_layers():
    def points_up(module, name):
        here, there = unit(module), unit(name)
        # what espnet_srupp itself defines, as __version__, has no layer
        return (
            name.startswith("espnet_srupp.")
            and there in LAYERS
            and there != here
            and LAYERS[there] >= LAYERS[here]
        )

    assert not offenders(points_up)


def test_the_recurrence_knows_arrays_only():
    allowed = {"torch", "numpy", "numba", "llvmlite", "cupy"} | sys.stdlib_module_names

    def foreign(module, name):
        if unit(module) != "recurrence":
            return False
        if name.startswith("espnet_srupp"):
            return unit(name) not in {"recurrence", "kernels"}
        return name.partition(".")[0] not in allowed

    assert not offenders(foreign)


def test_only_the_plug_touches_espnets_tables():
    def touches(module, name):
        in_tasks = name.startswith(("espnet2.tasks", "espnet3"))
        tables = in_tasks and not name.endswith("Task")
        return unit(module) not in PLUG and (tables or name.endswith("ClassChoices"))

    assert not offenders(touches)


def test_only_compat_knows_the_generations():
    def knows(module, name):
        return name.startswith(("espnet.", "espnet2.legacy", "espnet3"))

    assert not offenders(knows)
