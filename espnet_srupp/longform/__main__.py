"""The command line: python3 -m espnet_srupp.longform COMMAND ..."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from espnet_srupp import longform
from espnet_srupp.children import end_as_by_interrupt
from espnet_srupp.recipe.arguments import Parser
from espnet_srupp.recipe.program import exit_code

PROG = "python3 -m espnet_srupp.longform"
# each is a module of this package with `options(parser)` and `run(given)`
COMMANDS = {
    "transcribe": "text and word times of recordings of any length, by any model",
    "join": "join consecutive utterances to long recordings",
    "score": "error rates by length of the utterance, of one or more models",
    "plot": "draw what `score` found",
    "plot-attention": "draw what models attend to in an utterance",
}


def main(words: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    given = sys.argv[1:] if words is None else words
    return exit_code(lambda: run(given), "nothing is left half-written")


def run(words: Sequence[str]) -> None:
    width = max(map(len, COMMANDS))
    parser = Parser(
        prog=PROG,
        description=longform.__doc__,
        epilog="commands:\n"
        + "".join(f"  {name:<{width}}  {what}\n" for name, what in COMMANDS.items())
        + f"\n{PROG} COMMAND --help tells more.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "command", choices=COMMANDS, metavar="COMMAND", help="see below"
    )
    command = parser.parse_args(words[:1]).command
    # one module alone: another one may need what is slow to import
    module = import_module(f"espnet_srupp.longform.{command.replace('-', '_')}")
    parser = Parser(
        prog=f"{PROG} {command}",
        description=module.__doc__,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.options(parser)
    module.run(parser.parse_args(words[1:]))


if __name__ == "__main__":
    end_as_by_interrupt()
    sys.exit(main())
