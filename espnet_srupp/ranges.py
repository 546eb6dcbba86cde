"""The ranges of the encoder's arguments."""


def check_sizes(**sizes: int) -> None:
    """Raises ValueError for a size below 1."""
    for name, value in sizes.items():
        if value < 1:
            raise ValueError(f"{name} is {value}: give 1 or more")


def check_rates(**rates: float) -> None:
    """Raises ValueError for a rate that is not in [0, 1]."""
    for name, value in rates.items():
        if not 0 <= value <= 1:
            raise ValueError(f"{name} is {value}: give a number from 0 to 1")
