"""Columns that are known before Spark starts, and what can be told of expressions by then.

Only plain conditions are judged: columns compared with values and with one another. A word in any other expression may be a unit of
time, the parameter of a lambda or a function without brackets; Spark knows, and is asked when the pipeline is planned.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from catchment.pipelines.column_checks import BadExpression, no_column

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType
    from sqlglot import exp

_CALL: Final = re.compile(r"\w+\(\s*(\w+)\s*\)", re.ASCII)
_CONDITIONS: Final = ("And", "Or", "Not", "Is", "In", "Between", "Like", "RegexpLike")
_COMPARISONS: Final = ("EQ", "NEQ", "GT", "GTE", "LT", "LTE", "NullSafeEQ", "NullSafeNEQ")
_ARITHMETIC: Final = ("Neg", "Add", "Sub", "Mul", "Div", "Mod")
_VALUES: Final = ("Paren", "Null", "Boolean", "Literal", "Column", "Identifier")
_PLAIN: Final = frozenset((*_CONDITIONS, *_COMPARISONS, *_ARITHMETIC, *_VALUES))
_CONSTANTS: Final = frozenset(("user", "session_user", "current_user", "current_database", "localtimestamp"))
"""Functions that Spark lets stand without brackets, where sqlglot takes them for columns."""


@dataclass(frozen=True)
class DeclaredColumns:
    """The columns of a source's schema; serves as `Columns`."""

    owner: str
    schema: StructType

    def kind(self, expression: str) -> DataType | None:
        """Unknown; but a function of one column has to find it."""
        if (call := _CALL.fullmatch(expression.strip())) is not None and not call[1].isdecimal():
            self._require(call[1])
        return None

    def check_condition(self, expression: str) -> None:
        tree = _parsed(expression)
        if tree is None:
            return
        for one in tree.find_all(_column_type()):
            self._require(one.parts[0].name)
        if type(tree).__name__ in _ARITHMETIC:
            raise BadExpression("this is a value, not a condition: compare it with something")

    def _require(self, name: str) -> None:
        known = {one.lower() for one in self.schema.names}
        if name.lower() not in known and name.lower() not in _CONSTANTS:
            raise BadExpression(no_column(self.owner, name, self.schema.names))


def _parsed(expression: str) -> exp.Expr | None:
    """The expression, if it is a plain one."""
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        # By itself, an expression whose first column is named as a command, such as `load > 1`, would be read as that command.
        query = sqlglot.parse_one(f"SELECT * WHERE ({expression})", read="spark")
    except SqlglotError:
        return None
    tree: exp.Expr = query.args["where"].this.unnest()
    return tree if all(type(one).__name__ in _PLAIN for one in tree.walk()) else None


def _column_type() -> type[exp.Column]:
    from sqlglot import exp

    return exp.Column
