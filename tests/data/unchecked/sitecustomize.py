"""Takes typeguard from the Python programs that have this folder in PYTHONPATH."""

import typeguard


def unchecked(function=None, **_):
    return unchecked if function is None else function


typeguard.typechecked = unchecked
