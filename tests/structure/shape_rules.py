"""Sizes, names and words: what keeps a file readable and the tree free of leftovers."""
import re

from sources import CODE, ROOMS, bare, without_directives

FUNCTION_LINES = 50
FILE_LINES = 500
PARAMETERS = 5
NESTING = 4
REPEATED_LINES = 10
CONTROL = re.compile(r"\b(if|for|while|switch|catch|do|else|return)\b")
CONTAINER = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b")
NESTS = re.compile(r"(\}\s*)?(if|for|while|switch|else|do|try|catch)\b")
NAME = re.compile(r"([\w:~]+|operator\s*\S+)\s*\($")
LEFTOVERS = re.compile("|".join(["TO" + "DO", "FIX" + "ME", "HA" + "CK", r"\bXX" + "X" + r"\b"]))
MACHINE_PATHS = re.compile("|".join(r"(?<![\w.~}/])/" + top + "/" for top in ["work", "root", "home"]))
PRINTING = re.compile(r"\bstd::(cout|cerr|clog|printf|puts|exit|abort)\b|(?<![\w.:>])(printf|puts|exit|abort)\s*\(")
NAMED_IN_PAGES = re.compile(r"`([a-z]+/[\w./-]+)`")
NAMED_IN_CODE = re.compile(r"(?:^|(?<=[ (`]))([a-z]+/[\w./-]+\.(?:cpp|hpp|inl|cu|md|py))\b", re.MULTILINE)
VAGUE = re.compile(r"(?:^|_)(utils?|helpers?|manager|misc|common|stuff)(?:_|$)", re.IGNORECASE)
VAGUE_TYPE = re.compile(r"\b(?:class|struct)\s+(\w*(?:Utils?|Helper|Manager))\b")


def functions_of(text):
    """[(name, first line, lines, number of parameters)] of every function body outside other functions.

    A brace whose head (the text since the last ';', '{' or '}') has parentheses and is no class or namespace opens a function."""
    code = without_directives(bare(text))
    found, head, depth, start = [], "", 0, 0  # depth: open braces of the body that we are in, 0 outside of one
    line, pending = 1, None
    for i, c in enumerate(code):
        line += c == "\n"
        if depth:
            depth += (c == "{") - (c == "}")
            if depth == 0:
                rest = code[i + 1:i + 200].lstrip()
                if pending and not rest.startswith((",", "{")):  # else that was a brace in a constructor's list
                    found.append((pending[0], start, line - start + 1, pending[1]))
                    pending, head = None, ""
        elif c == "{":
            if not pending:
                pending = opened_by(head)
                start = line - head[head.find("("):].count("\n")
            if pending or not CONTAINER.search(head):
                depth = 1
            if not pending:
                head = ""
        elif c in ";}":
            head, pending = "", None
        else:
            head += c
    return found


def opened_by(head):
    """(name, number of parameters) of the function that `head` declares, or None."""
    head = re.sub(r"\b(public|private|protected)\s*:", "", head).strip()
    head = re.sub(r"^template\s*<[^{]*?>\s*(?=[\w\[])", "", head)
    if "(" not in head or (CONTAINER.match(head) and not re.search(r"\)\s*(const|noexcept|override|->.*)?$", head)) or "= " in head.split("(")[0]:
        return None
    match = NAME.search(head[:head.index("(") + 1])
    if not match or CONTROL.match(match.group(1)):
        return None
    return match.group(1), count_parameters(head[head.index("("):])


def count_parameters(text):
    """Parameters in the first pair of parentheses of `text`."""
    depth, commas, inside = 0, 0, ""
    for c in text:
        depth += (c in "(<[") - (c in ")>]")
        if depth == 0:
            break
        commas += c == "," and depth == 1
        inside += c
    return commas + 1 if inside.strip("( \n") else 0


def nesting_of(lines):
    """The greatest number of control statements of `lines` of code that stand inside each other. The layout tells: each one is indented more."""
    deepest, around = 0, []
    for line in filter(str.strip, lines):
        indent = len(line) - len(line.lstrip())
        while around and indent <= around[-1]:
            around.pop()
        if NESTS.match(line.lstrip()):
            around.append(indent)
            deepest = max(deepest, len(around))
    return deepest


def check_functions(root, files, sources):
    for s in sources:
        if s.in_tests:
            continue
        code = bare(s.text).splitlines()
        for name, first, lines, parameters in functions_of(s.text):
            nesting = nesting_of(code[first:first + lines - 1])
            if nesting > NESTING:
                yield f"{s.path}:{first}: {name} nests {nesting} deep, more than {NESTING}"
            if lines > FUNCTION_LINES:
                yield f"{s.path}:{first}: {name} has {lines} lines, more than {FUNCTION_LINES}"
            if parameters > PARAMETERS:
                yield f"{s.path}:{first}: {name} has {parameters} parameters, more than {PARAMETERS}"


def check_files(root, files, sources):
    for s in sources:
        lines = s.text.count("\n")
        if lines > FILE_LINES:
            yield f"{s.path}:1: {lines} lines, more than {FILE_LINES}"


ROW = re.compile(r"\{[^{}]*\},")  # of a table: names, numbers and texts alone


def check_repetition(root, files, sources):
    """No run of lines of code stands in two places: the second one should be a call, or both a row. The rows of a table look alike."""
    first_seen, ends = {}, {}
    for s in sources:
        if s.in_tests:
            continue
        code = [(n, line.strip()) for n, line in enumerate(bare(s.text).splitlines(), 1) if len(line.strip()) > 2 and not line.startswith("#")]
        for i in range(len(code) - REPEATED_LINES + 1):
            block = tuple(line for _, line in code[i:i + REPEATED_LINES])
            if len(set(block)) == 1 or all(ROW.fullmatch(line) for line in block):
                continue
            path, line = first_seen.setdefault(block, (s.path, code[i][0]))
            if (path, line) == (s.path, code[i][0]):
                continue
            pair = (path, s.path)
            if i > ends.get(pair, -1):
                yield f"{s.path}:{code[i][0]}: the {REPEATED_LINES} lines from here also stand at {path}:{line}"
            ends[pair] = i + REPEATED_LINES  # one sentence for a longer run


def check_names(root, files, sources):
    for s in sources:
        for part in s.parts:
            if VAGUE.search(part.rsplit(".", 1)[0]):
                yield f"{s.path}:1: '{part}' does not say what is inside"
        for match in VAGUE_TYPE.finditer(bare(s.text)):
            yield f"{s.path}:{line_of(s.text, match)}: the name {match.group(1)} does not say what it does"


def check_headers(root, files, sources):
    for s in sources:
        if not s.is_header:
            continue
        code = bare(s.text)
        for match in re.finditer(r"^\s*using\s+namespace\b", code, re.MULTILINE):
            yield f"{s.path}:{code.count(chr(10), 0, match.end()) + 1}: 'using namespace' in a header"
        if "#pragma once" not in s.text:
            yield f"{s.path}:1: a header starts with #pragma once"


def check_printing(root, files, sources):
    """Library code neither prints nor ends the process: that is the command line's part."""
    for s in sources:
        if s.in_tests or s.room == "cli":
            continue
        code = bare(s.text)
        for match in PRINTING.finditer(code):
            yield f"{s.path}:{code.count(chr(10), 0, match.start()) + 1}: library code neither prints nor exits ({match.group(0).strip(' (')})"


def check_words(root, files, sources):
    """No path of one machine and no unfinished note, in any text file."""
    for path in files:
        try:
            with open(f"{root}/{path}", encoding="utf-8") as f:
                lines = f.read().splitlines()
        except (UnicodeDecodeError, OSError):
            continue  # not text
        for number, line in enumerate(lines, 1):
            for match in [m for m in (LEFTOVERS.search(line), MACHINE_PATHS.search(line)) if m]:
                yield f"{path}:{number}: '{match.group(0)}' does not belong here"


def check_catch(root, files, sources):
    """Versions of Catch2 differ: what differs stands in tests/catch.hpp, and only tests/main.cpp needs the library itself."""
    for s in sources:
        if not s.in_tests or s.path in ("tests/catch.hpp", "tests/main.cpp"):
            continue
        code = bare(s.text)
        for match in re.finditer(r"\bCatch::", code):
            yield f"{s.path}:{code.count(chr(10), 0, match.start()) + 1}: names Catch:: itself; use what tests/catch.hpp has"
        for line, header, _ in s.includes:
            if header.startswith("catch2/"):
                yield f"{s.path}:{line}: includes {header}; include tests/catch.hpp"


def check_paths(root, files, sources):
    """A file or folder of ours that a comment or a page names is there."""
    there = set(files)
    for path in files:
        while "/" in path:
            path = path.rsplit("/", 1)[0]
            there.add(path)
    for path in files:
        if not path.endswith((".md", ".txt") + CODE):
            continue
        with open(f"{root}/{path}", encoding="utf-8", errors="replace") as f:
            text = f.read()
        for match in (NAMED_IN_PAGES if path.endswith(".md") else NAMED_IN_CODE).finditer(text):
            if match.group(1).split("/")[0] in ROOMS + ["scripts", "docs", "python"] and match.group(1).rstrip("/.") not in there:
                yield f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {match.group(1)} is not there"


def line_of(text, match):
    position = text.find(match.group(1))
    return text.count("\n", 0, max(position, 0)) + 1


RULES = {"function": check_functions, "file-length": check_files, "repetition": check_repetition, "name": check_names, "header": check_headers,
         "printing": check_printing, "word": check_words, "catch": check_catch, "path": check_paths}
