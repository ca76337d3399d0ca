"""The project's files, and C++ text reduced to what a rule may look at."""
import os
import re
import subprocess

ROOMS = ["base", "platforms", "graph", "formats", "costmodel", "plan", "predict", "search", "jobs", "traces", "exchange", "validation", "sim", "exec", "cli"]
CODE = (".cpp", ".hpp", ".cu", ".h")
SKIPPED_FOLDERS = {"build", ".git", "__pycache__", ".cache"}
TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<mark>[^()\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)


class Source:
    """One C++ file: `room` is its top folder, `owner` the room whose vendor headers it may use."""

    def __init__(self, root, path):
        self.path = path
        self.parts = path.split("/")
        self.room = self.parts[0]
        self.in_tests = self.room == "tests"
        self.owner = self.parts[1] if self.in_tests and len(self.parts) > 2 else self.room
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as f:
            self.text = f.read()
        self.includes = includes_of(self.text)

    @property
    def is_header(self):
        return self.path.endswith((".hpp", ".h"))


def includes_of(text):
    """[(line number, included path, True for <...>)]"""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if match:
            found.append((number, match.group(2), match.group(1) == "<"))
    return found


def all_files(root):
    """Paths relative to `root`: what git tracks or would track, or every file where there is no repository."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard"], capture_output=True, text=True)
    if listed.returncode == 0 and os.path.exists(os.path.join(root, ".git")):
        return sorted(p for p in listed.stdout.splitlines() if os.path.isfile(os.path.join(root, p)))
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [f for f in folders if f not in SKIPPED_FOLDERS]
        found += [os.path.relpath(os.path.join(folder, n), root) for n in names]
    return sorted(found)


def code_of(root, files):
    return [Source(root, p) for p in files if p.endswith(CODE) and p.split("/")[0] in ROOMS + ["tests"]]


def bare(text):
    """The text with comments and the insides of literals blanked; line numbers stay."""
    def blank(match):
        token = match.group(0)
        kept = "\n" * token.count("\n")
        return kept if token[0] == "/" else '""' + kept
    return TOKEN.sub(blank, text)


def without_directives(code):
    """The code with preprocessor lines blanked, continued ones too."""
    return re.sub(r"^[ \t]*#(?:.*\\\n)*.*$", lambda m: "\n" * m.group(0).count("\n"), code, flags=re.MULTILINE)
