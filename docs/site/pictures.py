#!/usr/bin/env python3
"""pictures.py ROOT [--check]: the pictures of docs/design.md, drawn from the sources; --check says which of them are not up to date.

rooms.svg: which room includes which (edges that follow from others left out). passes.svg: the passes of import and of lowering, in the order
of their tables. evaluators.svg: what asks and answers what a step costs."""
import re
import sys
from html import escape
from pathlib import Path

ROW, TEXT, SMALL = 46, "#1f2933", "#52606d"
HEAD = ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" height="{h}" font-family="sans-serif" font-size="13">\n'
        '<rect width="{w}" height="{h}" fill="#ffffff"/>\n'
        '<defs><marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#829ab1"/></marker></defs>\n')
SIDES = {"search": -1, "exchange": 1, "formats": 1}  # rooms that a longer edge leads to or from stand at the margin
PUBLIC = re.compile(r"\b(?:class|struct) (\w+) final : public (?:\w+::)*(StepEvaluator|Predictor)\b")


def box(x, y, width, title, note="", height=30, colour="#e6f0fa"):
    lines = [f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" fill="{colour}" stroke="#829ab1"/>',
             f'<text x="{x + 8}" y="{y + 19}" fill="{TEXT}">{escape(title)}</text>']
    for n, line in enumerate(broken(note, int((width - 16) / 6.2))):
        lines.append(f'<text x="{x + 8}" y="{y + 36 + 14 * n}" fill="{SMALL}" font-size="11">{escape(line)}</text>')
    return "\n".join(lines) + "\n"


def arrow(x1, y1, x2, y2):
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#829ab1" marker-end="url(#end)"/>\n'


def around(a, b, width, lane):
    """An edge that passes rows of rooms: along the nearer margin."""
    left = b[0] < width / 2 - 55
    out, side = (20 + 16 * lane, 0) if left else (width - 20 - 16 * lane, 110)
    return f'<path d="M{a[0] + side} {a[1] + 15} H{out} V{b[1] + 15} H{b[0] + side}" fill="none" stroke="#829ab1" marker-end="url(#end)"/>\n'


def broken(text, columns):
    lines = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= columns:
            lines[-1] += " " + word
        else:
            lines.append(word)
    return lines


def includes(root, rooms):
    """{room: rooms that its files include}"""
    found = {room: set() for room in rooms}
    for room in rooms:
        for path in sorted((root / room).rglob("*.[chi]*")):
            for other in re.findall(r'^#include "([a-z]+)/', path.read_text(encoding="utf-8", errors="replace"), re.M) if path.is_file() else ():
                if other in found and other != room:
                    found[room].add(other)
    return found


def reached(edges, start):
    seen, todo = set(), list(edges[start])
    while todo:
        room = todo.pop()
        if room not in seen:
            seen.add(room)
            todo += edges[room]
    return seen


def rooms_picture(root):
    sys.path.insert(0, str(root / "tests/structure"))
    from sources import ROOMS
    edges = includes(root, ROOMS)
    direct = {a: {b for b in edges[a] if not any(b in reached(edges, c) for c in edges[a] - {b})} for a in ROOMS}
    level = {}
    for room in ROOMS:  # a room stands behind all that it includes
        level[room] = 1 + max((level[b] for b in edges[room]), default=-1)
    rows = [sorted((r for r in ROOMS if level[r] == n), key=lambda r: SIDES.get(r, 0)) for n in range(max(level.values()) + 1)]
    width, step = 720, 66
    height = step * len(rows) + 20
    place = {r: (int(width * (i + 1) / (len(row) + 1)) - 55, height - step * (n + 1)) for n, row in enumerate(rows) for i, r in enumerate(row)}
    text = HEAD.format(w=width, h=height)
    lanes = 0
    for a in ROOMS:
        for b in sorted(direct[a]):
            if level[a] == level[b] + 1:
                text += arrow(place[a][0] + 55, place[a][1] + 30, place[b][0] + 55, place[b][1])
            else:
                text += around(place[a], place[b], width, lanes)
                lanes += 1
    return text + "".join(box(*place[r], 110, r + "/") for r in ROOMS) + "</svg>\n"


def rows_of(root, path, kind):
    """[(name, what it leaves)] of a table of passes."""
    text = (root / path).read_text(encoding="utf-8")
    joined = re.sub(r'"\s*\n\s*"', "", text)
    return [(m.group(1), m.group(3)) for m in re.finditer(kind + r'\{"([^"]+)",\s*"([^"]+)",\s*"([^"]+)"', joined)]


def passes_picture(root):
    columns = [("from a file to a graph", "inspect --passes", rows_of(root, "formats/onnx/passes/import_passes.cpp", "ImportPass")),
               ("from a stage to a role", "explain --passes", rows_of(root, "plan/lowering/role_passes.cpp", "RolePass"))]
    width, step = 760, 70
    height = step * max(len(rows) for _, _, rows in columns) + 40
    text = HEAD.format(w=width, h=height)
    for c, (title, command, rows) in enumerate(columns):
        x = 10 + 380 * c
        text += f'<text x="{x}" y="22" fill="{TEXT}" font-weight="bold">{title} <tspan font-weight="normal" fill="{SMALL}">({command})</tspan></text>\n'
        for n, (name, leaves) in enumerate(rows):
            text += box(x, 34 + step * n, 360, name, leaves, 58)
            if n > 0:
                text += arrow(x + 180, 34 + step * n - 12, x + 180, 34 + step * n)
    return text + "</svg>\n"


def evaluators_picture(root):
    found = {"Predictor": [], "StepEvaluator": []}
    for room in ("predict", "sim"):
        for path in sorted((root / room).rglob("*.cpp")):
            for name, base in PUBLIC.findall(path.read_text(encoding="utf-8")):
                found[base].append((name, str(path.relative_to(root))))
    width, height = 760, 60 + ROW * max(len(f) for f in found.values()) + 20
    text = HEAD.format(w=width, h=height)
    for c, (base, header) in enumerate((("Predictor", "predict/predictor.hpp"), ("StepEvaluator", "predict/step_cost.hpp"))):
        x = 10 + 390 * c
        text += box(x, 8, 350, base, header, 44, "#fdf0d5")
        for n, (name, path) in enumerate(found[base]):
            text += box(x + 30, 64 + ROW * n, 320, name, path, 42)
            text += f'<path d="M{x + 12} {52} V{64 + ROW * n + 21} H{x + 28}" fill="none" stroke="#829ab1"/>\n'
    return text + arrow(360, 30, 398, 30) + "</svg>\n"


PICTURES = {"rooms.svg": rooms_picture, "passes.svg": passes_picture, "evaluators.svg": evaluators_picture}


def main(arguments):
    check = "--check" in arguments
    root = Path([a for a in arguments if not a.startswith("--")][0])
    stale = 0
    for name, draw in PICTURES.items():
        path, text = root / "docs" / name, draw(root)
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        if check:
            print(f"docs/{name} is not what the sources say; scripts/site --refresh draws it")
            stale = 1
        else:
            path.write_text(text, encoding="utf-8")
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
