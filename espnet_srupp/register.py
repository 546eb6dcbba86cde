"""Makes `encoder: srupp` known to ESPnet: `import espnet_srupp.register` does it all.

It also has the process repeat its bits on a GPU if the environment asks (determinism),
and utterances of a batch have the features that they have alone (mirroring).

ESPnet lists the encoders of each task in a `ClassChoices` of the task's module. As
importing every task takes seconds, a module imported before is changed at once and any
other when it is imported.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

from espnet_srupp.compat import ASR_TASK, AbsEncoder, ClassChoices
from espnet_srupp.determinism import repeat_bits
from espnet_srupp.encoder import SRUppEncoder
from espnet_srupp.mirroring import mirror_ends

# not beats, hubert, lid, s2t_ctc and spk: they call their AbsEncoders differently
TASKS = {ASR_TASK} | {
    f"espnet2.tasks.{name}"
    for name in (
        "asr",
        "asvspoof",
        "cls",
        "diar",
        "enh_s2t",
        "gan_tok",
        "mt",
        "s2st",
        "s2t",
        "slu",
        "ssl",
        "st",
    )
}


def register(task: ModuleType) -> None:
    """Adds `srupp` to every choice of an `AbsEncoder` that a task's module makes."""
    for choices in vars(task).values():
        if isinstance(choices, ClassChoices) and choices.base_type is AbsEncoder:
            choices.classes["srupp"] = SRUppEncoder


CHANGES = dict.fromkeys(TASKS, register) | {"espnet2.layers.stft": mirror_ends}


class ChangeOnImport(MetaPathFinder):
    """Finds modules where Python would, and changes them once their code has run."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in CHANGES:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None:
            exec_module = spec.loader.exec_module

            def exec_and_change(module: ModuleType) -> None:
                exec_module(module)
                CHANGES[name](module)

            # the loader stays what it is, so that inspect and tracebacks find sources
            spec.loader.exec_module = exec_and_change
        return spec


for name in CHANGES.keys() & sys.modules.keys():
    CHANGES[name](sys.modules[name])
sys.meta_path.insert(0, ChangeOnImport())
repeat_bits()
