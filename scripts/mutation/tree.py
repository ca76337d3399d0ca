"""The copy of the tree in which mutants live: build/mutants/tree. The checkout's own files are never changed."""
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
WORK = os.path.join(ROOT, "build", "mutants")
TREE = os.path.join(WORK, "tree")
REFUSED = os.path.join(WORK, "refused.jsonl")  # keys of mutants that do not compile
BUILD = os.path.join(TREE, "build", "release")
ENVIRONMENT = {**os.environ, "CCACHE_BASEDIR": TREE, "CCACHE_NOHASHDIR": "1"}


def write(path, data):
    """Only where it differs, so that nothing is compiled without need."""
    try:
        with open(path, "rb") as f:
            if f.read() == data:
                return False
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)
    return True


def tracked():
    out = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True).stdout
    return [p for p in out.decode().split("\0") if p and os.path.isfile(os.path.join(ROOT, p))]


def shared_headers(files, room):
    """Headers of a room that are read outside of it: for a change in one of them almost every file would be compiled anew."""
    includes = {}
    for path in files:
        if path.endswith((".cpp", ".hpp", ".cu")):
            with open(os.path.join(ROOT, path), encoding="utf-8") as f:
                includes[path] = re.findall(r'^#include "([^"]+)"', f.read(), re.M)
    seen, open_ = set(), [i for path, found in includes.items() if not path.startswith(room + "/") for i in found]
    while open_:
        path = open_.pop()
        if path not in seen:
            seen.add(path)
            open_ += includes.get(path, [])
    return {path for path in seen if path.startswith(room + "/")}


def instrumented(data, mutants):
    """A file with the changes of [(number, edits)] in it. Edits that only insert nest as the expressions do."""
    edits = []
    for number, m in mutants:
        begin, end = m["place"]
        for order, (offset, length, text) in enumerate(m["edits"]):
            opening = order == 0 and offset == begin
            # At one offset: what closes comes first, inner expressions before outer; then what opens, outer expressions first.
            width = end - begin
            rank = (1, -width, number) if opening else (0, width, -number)
            edits.append((offset, rank, length, text.replace("@", str(number))))
    out, at = [], 0
    for offset, _, length, text in sorted(edits, key=lambda e: e[:2]):
        out += [data[at:offset], text.encode()]
        at = max(at, offset + length)
    out.append(data[at:])
    return b'#include "mutants_switch.hpp"\n#line 1\n' + b"".join(out)


def number_of(m):
    """What stands in the copy for a mutant: by its key, so that others change nothing in its file."""
    return int(m["key"][:6], 16)


def clashing(m, others):
    """Two changes of the same token cannot both be compiled in, nor two of one number."""
    if any(number_of(m) == number_of(other) for other in others):
        return True
    spans = [(o, o + n) for o, n, _ in m["edits"] if n]
    return any(a < d and c < b for other in others for a, b in spans for c, d in [(o, o + n) for o, n, _ in other["edits"] if n])


def copy(chosen):
    """Brings the copy up to date and writes the chosen mutants into it."""
    by_file = {}
    for m in chosen:
        by_file.setdefault(m["file"], []).append((number_of(m), m))
    wanted = set()
    for path in tracked():
        with open(os.path.join(ROOT, path), "rb") as f:
            data = f.read()
        wanted.add(path)
        target = os.path.join(TREE, path)
        write(target, instrumented(data, by_file[path]) if path in by_file else data)
        shutil.copymode(os.path.join(ROOT, path), target)
    with open(os.path.join(HERE, "mutants_switch.hpp"), "rb") as f:
        write(os.path.join(TREE, "mutants_switch.hpp"), f.read())
    for folder, folders, names in os.walk(TREE):
        folders[:] = [d for d in folders if os.path.join(folder, d) != os.path.join(TREE, "build") and d not in ("__pycache__", ".git")]
        for name in names:
            path = os.path.relpath(os.path.join(folder, name), TREE)
            if path not in wanted and path != "mutants_switch.hpp":
                os.remove(os.path.join(TREE, path))


def configure():
    """Each time, since tests may have been added: which there are is asked before anything is built."""
    subprocess.run(["cmake", "--preset", "release", "--log-level=WARNING"], cwd=TREE, env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)


def places_of_errors(messages):
    """[(places of an error and of what asked for it, places that its notes name)], a place being (file, line)."""
    found, before, notes = [], [], []
    for path, line, text in re.findall(r"^([^\s:]+):(\d+):(?:\d+:)? *(.*)", messages, re.M):
        place = (os.path.relpath(os.path.normpath(os.path.join(BUILD, path)), TREE), int(line))
        if text.startswith("error:"):
            notes = []
            found.append(([*before, place], notes))
            before = []
        elif text.startswith("warning:"):
            before, notes = [], []
        elif text.startswith("note:"):
            notes.append(place)
        else:  # "required from here"
            before.append(place)
    return found


def refused_by(chosen, messages):
    """The mutants because of which the compiler stopped."""
    keys = set()
    for direct, notes in places_of_errors(messages):
        near = [{m["key"] for m in chosen if any(m["file"] == p and 0 <= line - m["line"] <= 2 for p, line in places)} for places in (direct, notes)]
        # A constant that needs a field's first value fails far from it: then all of the file are taken out.
        keys |= near[0] or near[1] or {m["key"] for m in chosen if any(m["file"] == p for p, _ in direct)}
    return [m for m in chosen if m["key"] in keys]


def targets_of(tests):
    """What has to be built for tests of these names: executables of the same name, and the command for scripts."""
    out = subprocess.run(["cmake", "--build", BUILD, "--target", "help"], capture_output=True, text=True, check=True).stdout
    known = {line.split(":")[0] for line in out.splitlines()}
    return sorted({next((t for t in (f"test_{name}", name) if t in known), "rehearse") for name in tests})


def compiled(targets, jobs, log):
    """Builds the targets, as far as it goes. Compilers end with this process."""
    command = ["cmake", "--build", BUILD, f"-j{jobs}", "--target", *targets, "--", "-k", "0"]
    with open(log, "w", encoding="utf-8") as f, subprocess.Popen(command, env=ENVIRONMENT, stdout=f, stderr=subprocess.STDOUT,
                                                                 start_new_session=True) as process:
        try:
            return process.wait() == 0
        except BaseException:
            os.killpg(process.pid, signal.SIGTERM)
            raise


def build(chosen, targets, jobs):
    """Builds what tests need. A mutant that the compiler refuses is taken out of `chosen`, and the rest is built again."""
    while True:
        log = os.path.join(WORK, "build.log")
        if compiled(targets, jobs, log):
            return
        with open(log, encoding="utf-8") as f:
            text = f.read()
        refused = refused_by(chosen, text)
        if not refused:
            sys.exit(f"mutants: the copy does not build; the compiler's messages stand in {log}")
        for m in refused:
            print(f"not possible: {m['file']}:{m['line']} {m['change'][1]}", file=sys.stderr)
            with open(REFUSED, "a", encoding="utf-8") as f:
                f.write(json.dumps({"key": m["key"]}) + "\n")
            chosen.remove(m)
        copy(chosen)


def digest(paths):
    total = hashlib.sha256()
    for path in sorted(paths):
        with open(path, "rb") as f:
            total.update(path.encode() + b"\0" + hashlib.sha256(f.read()).digest())
    return total.hexdigest()[:16]


def load(path, default):
    try:
        with open(path, encoding="utf-8") as f:
            return json.load(f)
    except FileNotFoundError:
        return default


def load_lines(path):
    try:
        with open(path, encoding="utf-8") as f:
            return [json.loads(line) for line in f if line.endswith("\n")]
    except FileNotFoundError:
        return []
