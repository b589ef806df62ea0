#!/usr/bin/env python3
"""Executes what `punctual fleet sql DATASET QUERY --engine spark` prints, and writes each row as JSON:

    punctual fleet sql farm percentiles --engine spark | python3 query.py

It needs pyspark. A cluster's own `spark-sql -f FILE` does the same.
"""
import json
import sys

from pyspark.sql import SparkSession


def main() -> None:
    # Comments may hold a semicolon; a statement ends with one at the end of a line.
    lines = [line for line in sys.stdin if not line.startswith("--")]
    statements = [text for text in "".join(lines).split(";\n") if text.strip()]
    session = (
        SparkSession.builder.appName("punctual fleet")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    for statement in statements:
        answer = session.sql(statement)
        # Making a view answers nothing.
        if answer.columns:
            for row in answer.collect():
                print(json.dumps(row.asDict()))
    session.stop()


main()
