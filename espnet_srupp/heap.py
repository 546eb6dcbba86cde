"""Memory that a process keeps for its next tensors."""

import ctypes
import os
import sys

# of malloc.h: blocks that come from the system one by one and go back to it when they
# are freed, and beyond how many free bytes others do
M_MMAP_MAX, M_TRIM_THRESHOLD = -4, -1
NEVER = -1
# by these a user chooses
CHOICES = {
    "MALLOC_MMAP_MAX_": "",
    "MALLOC_MMAP_THRESHOLD_": "",
    "MALLOC_TRIM_THRESHOLD_": "",
    "GLIBC_TUNABLES": "glibc.malloc",
}


def keep_freed() -> bool:
    """Has the C library keep what is freed, for the rest of the process.

    By itself glibc gives tensors of 32 MiB and more back to the system at once. Each
    step of a training gets new pages for the same tensors then, which the system fills
    with zeros at a fault for every 4 KiB.

    Returns:
        Whether it does: not by another C library than glibc, and not where the
        environment tells glibc how to go about it (`chosen`).
    """
    if chosen() or sys.platform != "linux":
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt"):
        return False
    given = (M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, NEVER)
    return all([library.mallopt(*each) for each in given])


def chosen() -> bool:
    """Whether a user has set how glibc gives memory back."""
    given = os.environ
    return any(name in given and part in given[name] for name, part in CHOICES.items())
