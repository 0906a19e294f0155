"""The operators of requirements, as Python compares."""

import operator

RELATIONS = {
    "Gt": operator.gt,
    "Ge": operator.ge,
    "Lt": operator.lt,
    "Le": operator.le,
    "Eq": operator.eq,
    "Ne": operator.ne,
}
