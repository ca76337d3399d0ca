#!/usr/bin/env python3
"""memory.py MODEL --options 'OPTIONS OF explain' --plans PLAN... -o FILE.svg: what fills the memory of the fullest rank under each plan, as
`rehearse explain` says in its line "memory"."""
import argparse
import re
import shlex
import subprocess
from html import escape

WIDTH, LEFT, ROW = 960, 230, 26
COLOURS = ["#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b8b8b8"]
LINE = re.compile(r"^memory +([\d.]+) ([MG]B) of .*?: (.*)$", re.M)
UNITS = {"MB": 1e-3, "GB": 1.0}


def memory_of(plan, model, options):
    """(GB, [(category, GB)])"""
    command = ["rehearse", "explain", plan, "--model", model, *options]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    value, unit, parts = LINE.search(text).groups()
    total = float(value) * UNITS[unit]
    shares = re.findall(r"(\w+) ([\d.]+) %", parts)
    return total, [(name.replace("_", " "), total * float(share) / 100) for name, share in shares]


def draw(rows):
    scale = (WIDTH - LEFT - 90) / max(total for _, total, _ in rows)
    names = sorted({name for _, _, parts in rows for name, _ in parts})
    colour = dict(zip(names, COLOURS * len(names)))
    svg, y = [], 10
    for plan, total, parts in rows:
        svg.append(f'<text x="{LEFT - 8}" y="{y + 15}" text-anchor="end">{escape(plan)}</text>')
        x = float(LEFT)
        for name, size in sorted(parts):
            svg.append(f'<rect x="{x:.1f}" y="{y}" width="{size * scale:.1f}" height="{ROW - 6}" fill="{colour[name]}"/>')
            x += size * scale
        svg.append(f'<text x="{x + 6:.1f}" y="{y + 15}">{total:.2f} GB</text>')
        y += ROW
    for i, name in enumerate(names):
        svg.append(f'<rect x="{LEFT + i * 135}" y="{y + 8}" width="12" height="12" fill="{colour[name]}"/>'
                   f'<text x="{LEFT + i * 135 + 18}" y="{y + 18}">{name}</text>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 30}" font-family="sans-serif" font-size="12">'
            f'<rect width="100%" height="100%" fill="white"/>{"".join(svg)}</svg>\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--options", type=shlex.split, default=[])
    parser.add_argument("--plans", nargs="+", required=True)
    parser.add_argument("-o", required=True)
    arguments = parser.parse_args()
    rows = [(plan, *memory_of(plan, arguments.model, arguments.options)) for plan in arguments.plans]
    with open(arguments.o, "w", encoding="utf-8") as f:
        f.write(draw(rows))


if __name__ == "__main__":
    main()
