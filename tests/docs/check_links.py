#!/usr/bin/env python3
"""check_links.py ROOT: every link of README.md and docs/ leads to a file that is there and to a heading in it, a name of the program to a file that has it, and so does every docs/NAME.md
that sources, scripts and tests speak of. Prints FILE:LINE: what is wrong; exit status 1 if anything is."""
import re
import sys
from pathlib import Path

from pages import all_pages, anchors, links, read_page

NAMED = re.compile(r"\bdocs/([A-Za-z0-9_/-]+\.md)(?:#([a-z0-9-]+))?")
SHOWN = re.compile(r"\[`(?:\w+::)?(\w+)(?:\(\))?`\]\(([\w./-]+\.(?:hpp|cpp))\)")
SOURCES = {".cpp", ".hpp", ".py", ".cmake", ".txt", ".toml", ".md", ".inl", ""}
ELSEWHERE = ("build", "shared", "dist")  # folders at the root that are no sources
# The checks and their tests speak of pages that do not exist; third-party sources name documents of other projects.
EXEMPT = ("tests/structure", "tests/docs", "docs/site", "validation/records", "platforms/catalog")


def problems_of_page(page, known):
    for line, target in links(page):
        name, _, anchor = target.partition("#")
        path = (page.path.parent / name).resolve() if name else page.path.resolve()
        if not path.exists():
            yield line, f"{target}: there is no such file"
        elif anchor and path.suffix == ".md" and anchor not in known(path):
            yield line, f"{target}: that page has no heading with this anchor"


def problems_of_names(page):
    """A link that shows a name of the program leads to a file that has it: [`Graph`](../graph/graph.hpp)."""
    for number, line in enumerate(page.path.read_text(encoding="utf-8").splitlines(), 1):
        for name, target in SHOWN.findall(line):
            path = (page.path.parent / target).resolve()
            if path.exists() and not re.search(rf"\b{name}\b", path.read_text(encoding="utf-8", errors="replace")):
                yield number, f"{target} has no {name}"


def sources(root):
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        hidden = any(part.startswith(".") for part in relative.parts) or relative.parts[0] in ELSEWHERE
        if not hidden and path.suffix in SOURCES and path.is_file() and not str(relative).startswith(EXEMPT):
            yield path


def problems_of_source(path, root, known):
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        for name, anchor in NAMED.findall(line):
            page = root / "docs" / name
            if not page.exists():
                yield number, f"docs/{name}: there is no such page"
            elif anchor and anchor not in known(page):
                yield number, f"docs/{name}#{anchor}: that page has no heading with this anchor"


def find_problems(root):
    found, headings = [], {}

    def known(path):
        if path not in headings:
            headings[path] = anchors(read_page(path))
        return headings[path]

    for path in all_pages(root):
        found += [(path, *p) for p in problems_of_page(read_page(path), known)]
        found += [(path, *p) for p in problems_of_names(read_page(path))]
    for path in sources(root):
        found += [(path, *p) for p in problems_of_source(path, root, known)]
    return found


def main():
    root = Path(sys.argv[1]).resolve()
    problems = find_problems(root)
    for path, line, what in problems:
        print(f"{path.relative_to(root)}:{line}: {what}")
    print(f"{len(all_pages(root))} pages, {len(problems)} broken links")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
