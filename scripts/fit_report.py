#!/usr/bin/env python3
"""fit_report.py REPORT.json ACCURACY.md DATE COMMIT: puts the report of `rehearse fit` between the marks in the document."""
import json
import sys

BEGIN, END = "<!-- fit-published: begin -->", "<!-- fit-published: end -->"


def rows_of(table):
    for row in table:
        yield f"| {row['name']} | {row['quantities']} | {100 * row['mean_fitted']:.1f} | {100 * row['mean_left_out']:.1f} | {100 * row['median_left_out']:.1f} |"


def text_of(report, date, commit):
    quantities, constants = report["quantities"], report["fitted_constants"]
    lines = [f"Frozen {date} at commit {commit}: {constants} fitted constants for {quantities} measured quantities "
             f"(one for {quantities // max(1, constants)}), 90 % intervals hold {100 * report['coverage_left_out']:.0f} % of quantities of left-out sources.", "",
             "| group or family | n | mean error %, fitted | mean %, source left out | median %, source left out |", "| --- | ---: | ---: | ---: | ---: |"]
    lines += rows_of(report["totals"])
    lines += rows_of(report["families"])
    values = ", ".join(f"{name} {value:.4g}" for name, value in report["constants"].items())
    return "\n".join(lines) + f"\n\nThe fitted constants: {values}.\n"


def main(report_path, document_path, date, commit):
    with open(report_path, encoding="utf-8") as f:
        report = json.load(f)
    with open(document_path, encoding="utf-8") as f:
        document = f.read()
    before, rest = document.split(BEGIN)
    after = rest.split(END)[1]
    with open(document_path, "w", encoding="utf-8") as f:
        f.write(f"{before}{BEGIN}\n{text_of(report, date, commit)}{END}{after}")


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
