"""Options by their whole names alone, which argparse takes cut short as well."""

import argparse
import os
from functools import partialmethod

# set by who reads a program's options too, and knows whole names alone
ASKED = "ESPNET_SRUPP_WHOLE_NAMES"


def take_whole() -> None:
    """Has all parsers refuse shortened names, if the environment asks for it."""
    if os.environ.get(ASKED):
        made = argparse.ArgumentParser.__init__
        argparse.ArgumentParser.__init__ = partialmethod(made, allow_abbrev=False)
