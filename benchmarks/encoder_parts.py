"""Where an encoder's time goes: shares of convolution, projections, recurrence, ..."""

from collections.abc import Callable

import torch
from torch.autograd import DeviceType
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity

# part by what an operator's name contains, the first that fits
PARTS = {
    "recurrence": ("recurrence",),
    "convolution": ("conv",),
    "attention": ("attention", "bmm", "softmax", "masked_fill"),
    "projections": ("mm", "linear", "gemm"),
    "norms": ("norm",),
    "copies": ("copy", "cat", "contiguous", "clone", "fill"),
}
RUNS = 5  # as in one of them a thread may wait for another


def shares(run: Callable[[], None], device: str) -> dict[str, float]:
    """The share of each part in the time of all operators of some runs."""
    activities = [ProfilerActivity.CPU]
    if device == "cuda":
        activities.append(ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities) as profiler:
        for _ in range(RUNS):
            run()
    times = dict.fromkeys([*PARTS, "rest"], 0.0)
    for event in profiler.events():
        # a GPU's time is told twice, of kernels and of the operators that start them
        if event.device_type != DeviceType.CPU:
            continue
        own = (
            event.self_device_time_total
            if device == "cuda"
            else event.self_cpu_time_total
        )
        times[part(event)] += own
    total = sum(times.values())
    # nothing is seen of a GPU where CUPTI cannot be used
    return {name: spent / total for name, spent in times.items() if total}


def part(event: FunctionEvent) -> str:
    operator, parent = event.key.lower(), event.cpu_parent
    if parent is not None and "recurrence_tiles" in parent.key:
        # the gates' projections, one for each; else batched products are attention's
        operator = operator.replace("bmm", "mm")
    for name, words in PARTS.items():
        if any(word in operator for word in words):
            return name
    return "rest"
