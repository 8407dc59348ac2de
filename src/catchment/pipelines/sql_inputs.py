"""What a statement in Spark's SQL reads, told without Spark."""

from __future__ import annotations


class SqlUnreadable(Exception):
    """A statement that cannot be taken apart here; Spark may understand it nevertheless."""


def tables_read(sql: str) -> list[str]:
    """The tables that a statement names, in their order; neither those that it makes itself (WITH) nor those of a database."""
    # It takes a moment to load, and only stages that do not say what they read need it.
    import sqlglot
    from sqlglot.errors import ParseError, SqlglotError
    from sqlglot.optimizer.scope import traverse_scope

    found: list[tuple[int, str]] = []
    try:
        statements = [one for one in sqlglot.parse(sql, read="spark") if one is not None]
        for scope in (scope for one in statements for scope in traverse_scope(one)):
            made = {name.lower() for name in scope.cte_sources}
            found += [
                (table.this.meta.get("start", 0), table.name)
                for table in scope.tables
                if not table.db and table.name.lower() not in made
            ]
    except ParseError as error:
        # What it says by itself is for a terminal, with colours, and for those who know its tokens.
        first = error.errors[0] if error.errors else {}
        where = f"line {first['line']}, at {first['highlight']!r}: " if "line" in first else ""
        what = first.get("description", "it is no SQL").partition(" but got <")[0]
        raise SqlUnreadable(f"{where}{what.rstrip('.')}") from error
    except SqlglotError as error:
        raise SqlUnreadable(str(error).partition("\n")[0]) from error
    return list(dict.fromkeys(name for _, name in sorted(found)))
