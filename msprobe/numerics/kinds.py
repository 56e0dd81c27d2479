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
    OTHER_LAYOUT = 3
    ACCEPTED = 4
    FOLLOWS_ACCEPTED = 5
    HIDDEN_BY_ACCEPTED = 6
    UNCHECKED = 7
    VALUE = 8
    ARGUMENT = 9
    DTYPE = 10
    SHAPE = 11
    NON_FINITE = 12
    COPIES_DIFFER = 13
    NOT_ADDED = 14
    NOT_UPDATED = 15
    MISSING_IN_GOLDEN = 16
    MISSING_IN_TARGET = 17


class Role(IntEnum):
    """The role of a row in its call."""

    INPUT = 0
    PARAMETER = 1
    RESULT = 2
