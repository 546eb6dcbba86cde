"""Runs an ESPnet program with `encoder: srupp` known to it.

usage: python3 -m espnet_srupp.run -m MODULE [ARGUMENT ...]
       python3 -m espnet_srupp.run SCRIPT.py [ARGUMENT ...]

    python3 -m espnet_srupp.run -m espnet2.bin.asr_train --config train.yaml ...

The module or script is imported and its main() called, as every program of ESPnet has
one. In ESPnet's recipes: ./run.sh --python "python3 -m espnet_srupp.run"

A training (asr_train and others) keeps what memory it frees for its next step. With
ESPNET_SRUPP_DETERMINISTIC=1 in the environment one on a GPU gives the same bits in
every run, more slowly. On a CPU it always does.
"""

# This must be an ordinary module, neither a __main__.py nor a wrapper around runpy:
# ESPnet spawns a process for each GPU, and a spawned process knows `srupp` only
# because it imports its parent's main module again, which it never does with a
# __main__.py, and which after runpy would be ESPnet's program instead of this one.

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from espnet_srupp.children import follow

if __name__ == "__mp_main__":
    # a spawned process, which would train on if its parent were killed; before the
    # imports below, as they take seconds
    follow(os.getppid())

try:
    import espnet_srupp.register  # noqa: F401
    from espnet_srupp.checkpoint import save_whole
    from espnet_srupp.compat import exists
    from espnet_srupp.heap import keep_freed
    from espnet_srupp.names import take_whole
    from espnet_srupp.precision import mix_on_cpu
except ImportError as error:
    if error.name != "espnet":
        raise
    sys.exit(f"error: {error}")

# tells processes that a program starts who did, and with what
STARTED = "ESPNET_SRUPP_STARTED"

# here and not in main(), as spawned processes import this module only
save_whole()


def load(name: str, arguments: list[str]) -> ModuleType:
    """Imports a program by its module name, with `sys.argv` as it expects it."""
    if not all(name.split(".")) or not exists(name):
        sys.exit(
            f"error: there is no module {name or repr(name)}: check the name after -m."
        )
    sys.argv = [find_spec(name).origin, *arguments]
    return import_module(name)


def words(given: list[str]) -> list[str]:
    """The command line, of which Lightning tells its processes the end alone.

    For each further GPU it starts the main module, this one, with what the program
    then finds in sys.argv.
    """
    parent, *program = os.environ.pop(STARTED, "").split("\n")
    of_lightning = "LOCAL_RANK" in os.environ and parent == f"{os.getppid()}"
    if of_lightning and given[:1] not in (["-m"], program[:1]):
        return [*program, *given]
    return given


def main() -> Any:
    """Runs what the command line says; returns what the program's main() does."""
    given = words(sys.argv[1:])
    take_whole()
    match given:
        case ["-h" | "--help"]:
            print(__doc__.strip())
            return None
        case ["-m", name, *arguments]:
            program = load(name, arguments)
        case [script, *arguments] if script.endswith(".py"):
            path = Path(script).resolve()
            if not path.is_file():
                sys.exit(f"error: there is no script {script}: check its path.")
            if "." in path.stem:
                sys.exit(f"error: {script} has a dot within its name: rename it.")
            sys.path.insert(0, str(path.parent))
            program = load(path.stem, arguments)
            if getattr(program, "__file__", None) != str(path):
                sys.exit(f"error: {script} has the name of a module: rename it.")
        case _:
            sys.exit("error: expected -m MODULE or SCRIPT.py (--help tells more).")
    if not hasattr(program, "main"):
        sys.exit(f"error: {program.__name__} has no main() to run: choose a program.")
    if trainer := sys.modules.get("espnet2.train.trainer"):
        mix_on_cpu(trainer)
    if program.__name__.endswith("_train"):
        # not of `longform transcribe`, which tells what each utterance takes
        keep_freed()
    began = given[: len(given) - len(arguments)]
    os.environ[STARTED] = "\n".join([f"{os.getpid()}", *began])
    return program.main()


if __name__ == "__main__":
    # an exit code, of programs that return one
    sys.exit(main())
