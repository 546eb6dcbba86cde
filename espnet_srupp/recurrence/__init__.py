"""The SRU recurrence: one function, one torch operator, interchangeable backends."""

from .operator import recurrence

__all__ = ["recurrence"]
