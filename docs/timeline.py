#!/usr/bin/env python3
"""timeline.py TRACE... -o FILE.svg [--titles TITLE...] [--only STREAM...]: one step of every trace, rank by rank and stream by stream, on one scale.

The README's picture is made with it from the demo's traces (build/demo), predicted and measured; the tutorials' from traces of
`rehearse simulate`. The step shown is the median one of its trace."""
import argparse
import json
from html import escape

WIDTH, LEFT, ROW, GAP = 960, 170, 18, 4
STREAMS = ["compute", "collective", "send", "receive"]
COLOURS = {"forward": "#4c78a8", "backward": "#f58518", "update": "#54a24b", "other": "#b8b8b8", "communication": "#e45756"}
BODIES = ["other", "forward", "backward", "update"]  # by plan::BodyKind


def median_step(trace):
    steps = [s for s in trace["steps"] if not s["warm_up"]] or trace["steps"]
    return sorted(steps, key=lambda s: s["end_seconds"] - s["begin_seconds"])[len(steps) // 2]


def class_of(kind):
    return "communication" if kind["message"][0] else BODIES[kind["id"][2]]


def lanes(trace):
    """[(name, [(begin, end, class)])] of the chosen step, in seconds since it began."""
    step = median_step(trace)
    found = {}
    for rank in trace["ranks"]:
        for kind, _, number, stream, begin, end, _ in rank["events"]:
            if number == step["step"]:
                bars = found.setdefault((rank["rank"], stream), [])
                bars.append((begin - step["begin_seconds"], end - step["begin_seconds"], class_of(rank["kinds"][kind])))
    return [(f"rank {rank} {STREAMS[stream]}", bars) for (rank, stream), bars in sorted(found.items())], step["end_seconds"] - step["begin_seconds"]


def merged(bars, least):
    """Neighbours of one class with less than `least` seconds between them become one bar."""
    result = []
    for begin, end, kind in sorted(bars):
        if result and result[-1][2] == kind and begin - result[-1][1] < least:
            result[-1][1] = max(end, result[-1][1])
        else:
            result.append([begin, end, kind])
    return result


def read_tracks(traces, titles, only):
    tracks = []
    for title, path in zip(titles, traces):
        with open(path, encoding="utf-8") as f:
            rows, seconds = lanes(json.load(f))
        tracks.append((title, [row for row in rows if not only or row[0].split()[-1] in only], seconds))
    return tracks


def draw(tracks):
    parts, y, shown = [], 30, set()
    scale = (WIDTH - LEFT - 20) / max(seconds for _, _, seconds in tracks)
    for title, rows, seconds in tracks:
        parts.append(f'<text x="8" y="{y}" font-weight="bold">{escape(title)}: a step of {seconds * 1000:.0f} ms</text>')
        y += 10
        for name, bars in rows:
            parts.append(f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end">{escape(name)}</text>')
            for begin, end, kind in merged(bars, 0.3 / scale):
                shown.add(kind)
                parts.append(f'<rect x="{LEFT + begin * scale:.1f}" y="{y}" width="{max((end - begin) * scale, 0.3):.1f}" height="{ROW}" fill="{COLOURS[kind]}"/>')
            y += ROW + GAP
        y += 24
    for i, kind in enumerate(k for k in COLOURS if k in shown):
        parts.append(f'<rect x="{LEFT + i * 140}" y="{y - 12}" width="12" height="12" fill="{COLOURS[kind]}"/><text x="{LEFT + i * 140 + 18}" y="{y - 2}">{kind}</text>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 8}" font-family="sans-serif" font-size="12">'
            f'<rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", nargs="+")
    parser.add_argument("-o", required=True)
    parser.add_argument("--titles", nargs="+", default=["predicted", "measured"], help="one for each trace")
    parser.add_argument("--only", nargs="+", choices=STREAMS, help="streams that are shown; default: all")
    arguments = parser.parse_args()
    if len(arguments.titles) < len(arguments.traces):
        parser.error(f"{len(arguments.traces)} traces need as many --titles")
    with open(arguments.o, "w", encoding="utf-8") as f:
        f.write(draw(read_tracks(arguments.traces, arguments.titles, arguments.only)))


if __name__ == "__main__":
    main()
