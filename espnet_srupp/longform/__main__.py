"""The command line: python3 -m espnet_srupp.longform COMMAND ..."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from espnet_srupp.recipe.asr import INTERRUPTED, end_as_by_interrupt
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.options import Parser

PROG = "python3 -m espnet_srupp.longform"
# each is a module of this package with `options(parser)` and `run(given)`
COMMANDS = {
    "join": "join consecutive utterances to long recordings",
    "score": "error rates by length of the utterance, of one or more models",
    "plot": "draw what `score` found",
}


def main(words: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code.

    A command that did only part of its work says so by a RecipeError at its end.
    """
    try:
        run(sys.argv[1:] if words is None else words)
    except RecipeError as error:
        for sentence in error.args:
            print(f"error: {sentence}", file=sys.stderr)
        return 1
    except OSError as error:
        # of files that may not be read or written
        print(f"error: {error}", file=sys.stderr)
        return 1
    except ModuleNotFoundError as error:
        print(
            f"error: {sys.executable} has no module {error.name}: install with "
            "pip install 'espnet_srupp[recipes]'",
            file=sys.stderr,
        )
        return 1
    except KeyboardInterrupt:
        print("interrupted: nothing is left half-written", file=sys.stderr)
        return INTERRUPTED
    return 0


def run(words: Sequence[str]) -> None:
    width = max(map(len, COMMANDS))
    parser = Parser(
        prog=PROG,
        description="Long recordings: joined from utterances, scored by length, drawn.",
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
