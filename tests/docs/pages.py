"""A page of the documentation taken apart: blocks of code with the remark before them, text, headings, links.

A remark is an HTML comment on the line before a block, which no reader of the page sees:
    <!-- run -->                 the block is commands; it is executed and must end with 0
    <!-- run: exit 3 -->         the same, and must end with 3
    <!-- run: needs MODULE -->   the same where Python has this module, else it is skipped, which is said
    <!-- not run: REASON -->     commands that are not executed here, and why
    <!-- rows N...: COMMAND -->  before a table: COMMAND with the code of a row's first cell in place of {} prints what is in its N-th cells
    <!-- output -->              what the last executed block printed; a line of … leaves out lines, … in a line leaves out text
"""
import re
from dataclasses import dataclass, field
from pathlib import Path

FENCE = re.compile(r"^\s*(`{3,})(.*)$")
REMARK = re.compile(r"^<!--\s*(.*?)\s*-->$")
HEADING = re.compile(r"^#{1,6} +(.*?)\s*$")
LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^)\s]+)\)")
COMMAND = re.compile(r"^(?:[A-Z_]+=\S+ )*(?:mpirun (?:-\S+ \S+ )*)?rehearse [a-z]")


@dataclass
class Block:
    line: int  # of the opening fence, from 0
    remark: str
    language: str
    lines: list = field(default_factory=list)

    def has_commands(self):
        return self.language in ("", "sh", "bash") and any(COMMAND.match(line) for line in self.lines)

    def runs(self):
        return self.remark == "run" or self.remark.startswith("run:")

    def status(self):
        found = re.fullmatch(r"run: exit (\d+)", self.remark)
        return int(found.group(1)) if found else 0

    def needs(self):
        found = re.fullmatch(r"run: needs (\w+)", self.remark)
        return found.group(1) if found else None


@dataclass
class Page:
    path: Path
    lines: list
    blocks: list
    text: list  # (number, line) of what stands outside of blocks


def read_page(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    blocks, text, open_block, fence = [], [], None, ""
    for number, line in enumerate(lines):
        found = FENCE.match(line)
        if open_block is None and found:
            remark = REMARK.match(lines[number - 1]) if number else None
            open_block, fence = Block(number, remark.group(1) if remark else "", found.group(2).strip()), found.group(1)
        elif open_block is not None and line.strip() == fence:
            blocks.append(open_block)
            open_block = None
        elif open_block is not None:
            open_block.lines.append(line)
        else:
            text.append((number, line))
    return Page(path, lines, blocks, text)


TABLE = re.compile(r"^<!-- rows ([\d ]+): (.*) -->$")


def checked_rows(page):
    """(line, command, [cell]) of every row of a table with a remark `rows`; several remarks may follow each other."""
    remarks = []
    for number, line in page.text:
        found = TABLE.match(line)
        if found:
            remarks.append(found)
        elif not line.startswith("|"):
            remarks = []
        elif remarks and "`" in line.split("|")[1]:
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            for columns, command in (remark.groups() for remark in remarks):
                code = "".join(re.findall(r"`([^`]*)`", cells[0]))
                yield number, command.replace("{}", code), [cells[int(c) - 1] for c in columns.split()]


def all_pages(root):
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def without_code(line):
    return re.sub(r"`[^`]*`", "", line)


def anchors(page):
    """As GitHub and the site make them: lower case, no punctuation, a dash for every space, a number behind a repeated one."""
    result, seen = set(), {}
    for _, line in page.text:
        found = HEADING.match(line)
        if not found:
            continue
        words = LINK.sub(lambda m: m.group(0)[1:].split("]")[0], found.group(1))
        slug = re.sub(r"[^\w\- ]", "", words.lower()).strip().replace(" ", "-")
        count = seen.get(slug, 0)
        seen[slug] = count + 1
        result.add(slug if count == 0 else f"{slug}-{count}")
    return result


def links(page):
    """(line from 1, target) of every link and picture that names a file or an anchor of this repository."""
    for number, line in page.text:
        for target in LINK.findall(without_code(line)):
            if not re.match(r"[a-z]+:", target):
                yield number + 1, target
