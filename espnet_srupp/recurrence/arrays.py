"""Tensors as the arrays that the loops take, without copies where possible."""

import numpy as np
import torch
from torch import Tensor

# numpy has no bfloat16: its bits
BITS = {torch.bfloat16: torch.uint16}
NUMBERS = {bits: dtype for dtype, bits in BITS.items()}


def empty(dtype: torch.dtype, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    # numpy asks for huge pages, torch does not: page faults cost as much as the loops
    name = str(BITS.get(dtype, dtype)).removeprefix("torch.")
    return [np.empty(shape, name) for shape in shapes]


def to_numpy(tensor: Tensor, dtype: torch.dtype) -> np.ndarray:
    tensor = tensor.detach().to(dtype).contiguous()
    return tensor.view(BITS.get(dtype, dtype)).numpy()


def to_torch(array: np.ndarray) -> Tensor:
    tensor = torch.from_numpy(array)
    return tensor.view(NUMBERS.get(tensor.dtype, tensor.dtype))
