"""Rows of the tables in C++ sources, as lists of fields: what plans, schedules, collectives and optimizers are called, and what they are."""
import re

NAME = re.compile(r"^\.\w+\s*=\s*")  # of a field that is given by its name: .name = "rprop"
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|[(\[{]|[)\]}]|,|[^"(){}\[\],/]+|/')


def fields_after(text, start):
    """The comma-separated fields from just behind an opening brace to its end; string literals that follow each other are one."""
    fields, depth = [""], 0
    for found in TOKEN.finditer(text, start):
        token = found.group(0)
        if token.startswith("//"):
            continue
        if token in "([{":
            depth += 1
        elif token in ")]}":
            depth -= 1
            if depth < 0:
                return [NAME.sub("", field.strip()) for field in fields]
        elif token == "," and depth == 0:
            fields.append("")
            continue
        if token.startswith('"'):
            fields[-1] += token[1:-1].replace('\\"', '"')
        else:
            fields[-1] += token.strip()
    raise ValueError("a row without an end")


def rows_in(path, head):
    """Fields of every row that follows the regular expression `head` (which ends with the opening brace) and begins with a text."""
    text = path.read_text(encoding="utf-8")
    return [fields_after(text, found.end()) for found in re.finditer(head + r'(?=\s*(?:\.\w+\s*=\s*)?")', text)]
