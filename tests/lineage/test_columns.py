"""Columns: each has its meaning and rules."""

from typing import Any

from banana100.lineage.columns import SCHEMAS, TABLES, constraints, description


def test_every_column_is_described(default_params: dict[str, Any]) -> None:
    assert TABLES.keys() == SCHEMAS.keys()
    for table, schema in SCHEMAS.items():
        for column in schema.names:
            assert description(table, column)
            assert constraints(table, column).keys() <= {"required", "minimum", "pattern"}
