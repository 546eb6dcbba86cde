"""The errors that a user of the recipes is meant to read."""


class RecipeError(Exception):
    """One sentence: what is wrong, where, and what to do."""


class DataError(RecipeError):
    """What is wrong with one utterance or recording; the others may do without it.

    Args:
        sentence: as of any `RecipeError`.
        kind: the same in a word or two, by which faults are counted.
    """

    # a default, as pickle makes it anew of the sentence alone
    def __init__(self, sentence: str, kind: str = ""):
        super().__init__(sentence)
        self.kind = kind
