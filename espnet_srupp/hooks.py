"""Whether a module may be computed in another way than by calling it."""

from collections.abc import Iterable

from torch import nn
from torch.nn.modules import module as any_module

KINDS = ("forward_pre_hooks", "forward_hooks", "backward_pre_hooks", "backward_hooks")


def watched(modules: Iterable[nn.Module]) -> bool:
    """Whether it would pass by what somebody who prunes or watches has put there.

    That is hooks of one of the modules, or of all that there are, or another `forward`.
    """
    if any(getattr(any_module, f"_global_{kind}") for kind in KINDS):
        return True
    return any(
        "forward" in vars(module) or any(getattr(module, f"_{k}") for k in KINDS)
        for module in modules
    )
