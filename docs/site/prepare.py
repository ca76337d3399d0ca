#!/usr/bin/env python3
"""prepare.py ROOT PROGRAM FOLDER: the pages of docs/ as the site's generator reads them, and the reference (reference.py), in FOLDER.

Pages are written for GitHub. Here lists and tables get the empty line before them that Python's Markdown wants, the remarks of examples go,
`docs/NAME.md` in a sentence becomes a link, and a link out of docs/ becomes the path that it leads to."""
import re
import shutil
import sys
from pathlib import Path

from reference import Program, pages

NAMED = re.compile(r"(?<!\[)`docs/([A-Za-z0-9_/-]+\.md)(#[a-z0-9-]+)?`")
REMARK = re.compile(r"^<!-- (?:run|not run|output|by hand|rows).*-->$")
ITEM, ROW = re.compile(r"^(?:[*-]|\d+\.) "), re.compile(r"^\|")
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#:\s]+)\)")


def title_of(path):
    found = re.search(r"^# +(.*)$", path.read_text(encoding="utf-8"), re.M)
    return found.group(1).replace("`", "") if found else path.stem


def linked(line, source, root):
    """Pages that a sentence names, as links with their titles."""
    def link(found):
        target = root / "docs" / found.group(1)
        depth = len(source.relative_to(root / "docs").parts) - 1
        return f"[{title_of(target)}]({'../' * depth}{found.group(1)}{found.group(2) or ''})"

    def path(found):
        target = (source.parent / found.group(2)).resolve()
        inside = target.is_relative_to(root / "docs") or not target.is_relative_to(root)
        return found.group(0) if inside else f"{found.group(1)} (`{target.relative_to(root)}`)"
    return NAMED.sub(link, LINK.sub(path, line))


def starts_block(line, before):
    for form in (ITEM, ROW):
        if form.match(line) and before.strip() and not form.match(before) and not before.startswith(" "):
            return True
    return False


def converted(source, root):
    result, fenced, before = [], False, ""
    for line in source.read_text(encoding="utf-8").splitlines():
        if line.lstrip().startswith("```"):
            if not fenced and before.strip():
                result.append("")
            fenced = not fenced
        elif not fenced:
            if REMARK.match(line):
                continue
            line = line if line.startswith("#") else linked(line, source, root)
            if starts_block(line, before):
                result.append("")
        result.append(line)
        before = line
    return "\n".join(result) + "\n"


def main():
    root, program, folder = Path(sys.argv[1]).resolve(), sys.argv[2], Path(sys.argv[3])
    shutil.rmtree(folder, ignore_errors=True)
    for source in sorted((root / "docs").rglob("*")):
        target = folder / source.relative_to(root / "docs")
        if source.suffix == ".md":
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(converted(source, root), encoding="utf-8")
        elif source.suffix == ".svg":
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    made = pages(Program(program), root)
    for name, text in made.items():
        target = folder / "reference" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    print(f"{len(made)} pages of the reference made from {program} and the sources")


if __name__ == "__main__":
    main()
