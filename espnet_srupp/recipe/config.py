"""YAML files of training and decoding, read flat so that changes have a name."""

import shlex
from collections.abc import Mapping
from pathlib import Path

import yaml

from espnet_srupp.recipe.errors import RecipeError

# what yaml raises for a date, number or truth that is none, and for nested brackets
CONSTRUCTORS = (ValueError, LookupError, AttributeError, TypeError, RecursionError)
# values of a file; a vocabulary is far smaller
LARGEST = 10**6


def read(path: str | Path, overrides: str = "") -> dict[str, object]:
    """Reads a YAML file and the arguments that override it.

    Args:
        path: the file, "" for none.
        overrides: as in --asr_args; of an option given twice the last one counts.

    Returns:
        {"encoder_conf.num_blocks": 12, ...}.

    Raises:
        RecipeError: the file is not YAML or not a mapping; names the line.
    """
    settings = flat(load(path) if path else {})
    for name, value in arguments(overrides):
        settings |= nested(name, value) if name.endswith("_conf") else {name: value}
    return settings


def arguments(words: str) -> list[tuple[str, str]]:
    """Reads "--max_epoch 10 --optim_conf lr=1" as [("max_epoch", "10"), ...]."""
    return [(name, " ".join(values)) for name, values in options(words)]


def options(words: str) -> list[tuple[str, list[str]]]:
    """As `arguments`, with the words of each apart, as files' names may have blanks."""
    result: list[tuple[str, list[str]]] = []
    for word in shlex.split(words):
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            result.append((name.replace("-", "_"), [value] if equals else []))
        else:
            name, values = result.pop() if result else ("", [])
            result.append((name, [*values, word]))
    return result


def trained_with(path: Path) -> dict[str, object]:
    """The configuration of a model, without anything if it is not there."""
    return read(path) if path.is_file() else {}


def number(
    settings: Mapping[str, object], name: str, default: float, kind: type = float
) -> float:
    """A setting that is a number.

    Raises:
        RecipeError: it is something else.
    """
    value = settings.get(name, default)
    try:
        return kind(value)
    except (TypeError, ValueError, OverflowError) as error:
        wanted = "a whole number" if kind is int else "a number"
        raise RecipeError(
            f"{name} is {value!r}: give {wanted} in the YAML or by --*_args"
        ) from error


def absent(value: object) -> object:
    """A setting as ESPnet reads it on its command line, where none is a word."""
    return None if str(value).lower() in ("none", "null", "nil", "") else value


def nested(name: str, value: str) -> dict[str, object]:
    """`encoder_conf` and "a.b=1", or "{a: {b: 1}}", as {"encoder_conf.a.b": 1}."""
    key, one, rest = value.partition("=")
    try:
        tree = plain(rest if one else value)
        return flat({f"{name}.{key}" if one else name: tree})
    except (yaml.YAMLError, *CONSTRUCTORS) as error:
        raise RecipeError(f"--{name} {value} is not YAML: correct it") from error


def load(path: str | Path) -> dict:
    try:
        result = plain(Path(path).read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path} is not UTF-8: convert it with iconv") from error
    except (yaml.YAMLError, *CONSTRUCTORS) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "it cannot be read"
        raise RecipeError(
            f"{path}{where} is not YAML ({problem}): correct it"
        ) from error
    if not isinstance(result, dict):
        raise RecipeError(f"{path} is not a list of 'key: value' lines: correct it")
    return result


def plain(text: str) -> object:
    """Reads YAML whose aliases do not make it endless, or as large as memory.

    Raises:
        yaml.YAMLError: it is not YAML, or holds more than LARGEST values.
        RecursionError: it holds itself, or is nested deeply.
    """
    sizes: dict[int, int] = {}

    def size(tree: object) -> int:
        if not isinstance(tree, dict | list | tuple):
            return 1
        # what several aliases name is counted once, and added for each
        if id(tree) not in sizes:
            values = tree.values() if isinstance(tree, dict) else tree
            sizes[id(tree)] = 1 + sum(map(size, values))
        return sizes[id(tree)]

    tree = yaml.safe_load(text)
    if size(tree) > LARGEST:
        problem = f"its aliases make more than {LARGEST} values of it"
        raise yaml.MarkedYAMLError(problem=problem)
    return tree


def flat(tree: Mapping, prefix: str = "") -> dict[str, object]:
    """{"a": {"b": 1}} as {"a.b": 1}."""
    result: dict[str, object] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            result |= flat(value, f"{prefix}{key}.")
        else:
            result[f"{prefix}{key}"] = value
    return result
