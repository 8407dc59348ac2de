"""The columns of a stage as Spark resolves them, and Spark's errors in an expression or a stage's code, in short."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DataType, StructType

from catchment.client.errors import SettingsError
from catchment.pipelines.checks.columns import BadExpression, no_column
from catchment.pipelines.errors import closest
from catchment.pipelines.execution.spark_errors import cause_of

_UNRESOLVED: Final = ("UNRESOLVED_COLUMN", "UNRESOLVED_USING_COLUMN_FOR_JOIN")
_LINE: Final = re.compile(r"\bline (\d+),? pos \d+")
_WHERE: Final = re.compile(r"[;,]?\s*\(?line \d+,? pos \d+\)?;?")
_NAME_PART: Final = re.compile(r"`((?:[^`]|``)*)`")
_MOST_PROPOSED: Final = 5


class Objection(NamedTuple):
    """What Spark finds wrong with a plan."""

    what: str
    line: int | None
    """Of the SQL, if it says so."""


@dataclass(frozen=True)
class SparkColumns:
    """The columns of rows without a row in them; serves as `Columns`."""

    owner: str
    rows: DataFrame

    @property
    def schema(self) -> StructType:
        return self.rows.schema

    def kind(self, expression: str) -> DataType:
        try:
            return self.rows.select("*", F.expr(expression)).schema.fields[-1].dataType
        except (PySparkException, Py4JJavaError) as error:
            raise BadExpression(self._against(error)) from error

    def check_condition(self, expression: str) -> None:
        kind = self.kind(expression)
        if not isinstance(kind, BooleanType):
            raise BadExpression(f"this is of type {kind.simpleString()}, not a condition: compare it with something")
        try:
            self.rows.where(expression)
        except (PySparkException, Py4JJavaError) as error:
            raise BadExpression(self._against(error)) from error

    def _against(self, error: PySparkException | Py4JJavaError) -> str:
        """With the columns of a row in place of Spark's proposal, which is a selection of them."""
        name = unresolved_name(error)
        return objection(error).what if name is None else no_column(self.owner, name, self.schema.names)


def objection(error: Exception, tables: Sequence[str] = ()) -> Objection:
    """What an error of Spark's, or of a stage's code, says for people; `tables` are those that its SQL may name."""
    # The caller finds the line, in the author's files.
    text = str(cause_of(error)._replace(place=None))
    line = _LINE.search(str(error)) if isinstance(error, AnalysisException) else None
    number = int(line[1]) if line else None
    if (name := unresolved_name(error)) is not None:
        return Objection(f"there is no column {name}{_proposal(error, name)}", number)
    match error.getCondition() if isinstance(error, PySparkException) else None:
        case "FIELD_NOT_FOUND":
            name = _plain(_parameters(error)["fieldName"])
            return Objection(f"there is no field {name}{_proposal(error, name)}", number)
        case "TABLE_OR_VIEW_NOT_FOUND":
            name = _plain(_parameters(error)["relationName"])
            close = closest(name, tables)
            proposal = f"; did you mean {close}? It" if close else "; it"
            return Objection(f"there is no table {name}{proposal} reads {', '.join(tables)}", number)
        case "ATTRIBUTE_NOT_SUPPORTED":
            return Objection(f"a DataFrame has no column or method {_parameters(error)['attr_name']}", number)
    return Objection(_WHERE.sub("", text.partition("\n")[0]).strip().rstrip(".;"), number)


def unresolved_name(error: Exception) -> str | None:
    """The column that Spark does not find, if that is its complaint."""
    if not isinstance(error, PySparkException) or not (error.getCondition() or "").startswith(_UNRESOLVED):
        return None
    parameters = _parameters(error)
    name = parameters.get("objectName") or parameters.get("colName")
    return _plain(name) if name else None


def _proposal(error: Exception, name: str) -> str:
    """What Spark proposes instead, the likeliest of it if one is likely."""
    parameters = _parameters(error)
    proposed = parameters.get("proposal") or parameters.get("suggestion") or parameters.get("fields") or ""
    columns = list(dict.fromkeys(_plain(one).rpartition(".")[2] for one in proposed.split(", ") if one))
    if not columns:
        return ""
    close = closest(name.rpartition(".")[2], columns)
    return f"; did you mean {close}?" if close else f"; did you mean one of {', '.join(columns[:_MOST_PROPOSED])}?"


def _parameters(error: Exception) -> dict[str, str]:
    return dict(error.getMessageParameters() or {}) if isinstance(error, PySparkException) else {}


def _plain(name: str) -> str:
    """A name as people write it: Spark puts every part of it in backticks."""
    parts = _NAME_PART.findall(name)
    return ".".join(one.replace("``", "`") for one in parts) if parts else name.strip("`")


def require_streamable(rows: DataFrame, stage: str, mode: str) -> None:
    """SettingsError where Spark's own check refuses the streaming result of a stage in an output mode."""
    jvm = rows.sparkSession.sparkContext._jvm
    assert jvm is not None, "a started context has a JVM"
    output_mode = jvm.org.apache.spark.sql.catalyst.streaming.InternalOutputModes.apply(mode)
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    try:
        checker.checkForStreaming(rows._jdf.queryExecution().analyzed(), output_mode)
    except AnalysisException as error:
        raise SettingsError(
            f"Spark cannot run stage {stage} as a stream: {cause_of(error).message.rstrip('.;')}",
            f"Its mode is {mode}: change that, or what the stage does.",
        ) from error
