"""The one error that a user of the recipes is meant to read."""


class RecipeError(Exception):
    """One sentence: what is wrong, where, and what to do."""
