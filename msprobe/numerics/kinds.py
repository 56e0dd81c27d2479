"""Words of a verdict as numbers: how bad a row is, what is wrong with it, and its role in its call."""

from enum import IntEnum


class Level(IntEnum):
    """How bad a row is."""

    PASS = 0
    WARNING = 1
    ERROR = 2


class RowKind(IntEnum):
    """What is wrong with a row; a higher kind is reported first. The text of a kind is its name in lower case."""

    NONE = 0
    UNINITIALISED = 1
    WITHOUT_EFFECT = 2
    ACCEPTED = 3
    FOLLOWS_ACCEPTED = 4
    HIDDEN_BY_ACCEPTED = 5
    UNCHECKED = 6
    VALUE = 7
    ARGUMENT = 8
    DTYPE = 9
    SHAPE = 10
    NON_FINITE = 11
    COPIES_DIFFER = 12
    NOT_ADDED = 13
    NOT_UPDATED = 14
    MISSING_IN_GOLDEN = 15
    MISSING_IN_TARGET = 16


class Role(IntEnum):
    """The role of a row in its call."""

    INPUT = 0
    PARAMETER = 1
    RESULT = 2
