#!/usr/bin/env python3
"""check_rooms.py [--rooms-only] ROOT: holds the tree against the rules of docs/design.md.

Prints one line a violation and ends with status 1 where there is one. `--rooms-only` checks the include rules alone:
that is what the build runs before it links. allowed.txt lists older violations of size; a line that is no longer needed
is a violation too, so that the list only shrinks."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import operator_rules
import room_rules
import shape_rules
import unity_rules
from sources import all_files, code_of

ALLOWED = "tests/structure/allowed.txt"


def read_allowed(root):
    """Lines 'path name-of-function-or-file-length'; '#' starts a comment."""
    try:
        with open(os.path.join(root, ALLOWED), encoding="utf-8") as f:
            lines = [line.split("#")[0].split() for line in f]
    except FileNotFoundError:
        return set()
    return {tuple(words) for words in lines if len(words) == 2}


def key_of(rule, violation):
    """What allowed.txt names a size violation by: its file, and the function or 'file-length'."""
    place, text = violation.split(": ", 1)
    return place.rsplit(":", 1)[0], text.split()[0] if rule == "function" else rule


def violations_of(root, rooms_only=False):
    """[(rule, sentence)] of everything that is wrong below `root`."""
    files = all_files(root)
    sources = code_of(root, files)
    found = [(name, v) for name, rule in room_rules.RULES.items() for v in rule(sources)]
    if rooms_only:
        return found
    allowed, used = read_allowed(root), set()
    for name, rule in {**shape_rules.RULES, **unity_rules.RULES, "operator": operator_rules.check_operators}.items():
        for v in rule(root, files, sources):
            key = key_of(name, v)
            if name in ("function", "file-length") and key in allowed:
                used.add(key)
            else:
                found.append((name, v))
    found += [("allowed", f"{ALLOWED}: '{' '.join(key)}' is no longer needed: remove it") for key in sorted(allowed - used)]
    return found


def main(arguments):
    rooms_only = "--rooms-only" in arguments
    roots = [a for a in arguments if not a.startswith("-")]
    if len(roots) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    found = violations_of(roots[0], rooms_only)
    for rule, sentence in found:
        print(f"{sentence} [{rule}]")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
