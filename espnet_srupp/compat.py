"""ESPnet's two living generations: the one module that knows how they differ.

Up to 202511 ESPnet keeps its network code in `espnet.nets`, since then in
`espnet2.legacy.nets`; later ones have a second ASR task in espnet3. The generation is
told by this layout and not by the version number, so that a later release works.
"""

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from typing import Any

NETS = {202611: "espnet2.legacy.nets", 202511: "espnet.nets"}
ASR_TASKS = (
    "espnet3.systems.esp2_asr.task",
    "espnet3.systems.asr.task",  # its name in 202609
    "espnet2.tasks.asr",
)


def exists(module: str) -> bool:
    """Whether a module of that dotted name can be found; imports its parents only."""
    parent = module.rpartition(".")[0]
    if parent and not (exists(parent) and find_spec(parent).submodule_search_locations):
        return False
    return find_spec(module) is not None


def import_lazily(name: str) -> None:
    """Puts off running a module until something of it is used."""
    if name in sys.modules or (spec := find_spec(name)) is None:
        return
    module = sys.modules[name] = module_from_spec(spec)

    def __getattr__(attribute: str) -> Any:
        del module.__getattr__
        spec.loader.exec_module(module)
        return getattr(module, attribute)

    module.__getattr__ = __getattr__


# ESPnet 202511 imports it in every program, and at import it tries to download data
# from the network; only a tokenizer of English phonemes uses it
import_lazily("g2p_en")


def _generation() -> int:
    if not exists("espnet2"):
        raise ImportError(
            "ESPnet is not installed in this Python: `pip install espnet` adds it.",
            name="espnet",
        )
    for generation, nets in NETS.items():
        if exists(nets):
            return generation
    raise ImportError(
        f"ESPnet {import_module('espnet2').__version__} is of an unknown generation, "
        f"having neither {' nor '.join(NETS.values())}: install 202511 or 202611.",
        name="espnet",
    )


GENERATION: int = _generation()
"""The layout: 202611 (from 202609 on) or 202511 (and before)."""

ESPNET_VERSION: str = import_module("espnet2").__version__
AbsEncoder: type = import_module("espnet2.asr.encoder.abs_encoder").AbsEncoder
ClassChoices: type = import_module("espnet2.train.class_choices").ClassChoices
# decoding survives a too-short utterance only by catching this very class
TooShortUttError: type = import_module(
    f"{NETS[GENERATION]}.pytorch_backend.transformer.subsampling"
).TooShortUttError

ASR_TASK: str = next(filter(exists, ASR_TASKS))
"""The module of the newest `ASRTask`; named, not imported, as that takes seconds."""
