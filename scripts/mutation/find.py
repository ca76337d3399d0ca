"""Finds what can be changed: every place of the rooms' sources where an operator, a number, a condition or a call could be another one.

Reads the sources with libclang (PyPI: libclang), a room at a time as one file, since most of what a file costs to read are its headers.
Left out is what the compiler itself evaluates, where no switch at run time can stand: constexpr functions and variables, static_assert,
template arguments, sizes of arrays, case labels, enumerators; and `reserve`, without which a program does the same."""
import bisect
import hashlib
import json
import os
import re
import subprocess

# What belongs to each room. Of graph/ those files that hold operators (types, gradients, split rules) and how gradients and labels pass
# through a graph.
SCOPE = {
    "costmodel": ["costmodel"],
    "plan": ["plan"],
    "sim": ["sim"],
    "graph": ["graph/ops", "graph/dims", "graph/gradient.cpp", "graph/gradient.hpp", "graph/training.cpp", "graph/op_schema.cpp",
              "graph/op_schema.hpp", "graph/split_rule.hpp"],
}
FUNCTORS = {"+": "Plus", "-": "Minus", "*": "Times", "/": "Over", "%": "Modulo", "<": "Less", "<=": "LessEqual", ">": "Greater",
            ">=": "GreaterEqual", "==": "Equal", "!=": "Unequal"}
ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "*"}
BOUNDS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
COMPARISONS = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
LOGIC = {"&&": "||", "||": "&&"}
ON = "::mutants::on(@)"


class Missing(Exception):
    """Something that has to be installed."""


def libclang():
    try:
        from clang import cindex
    except ImportError:
        raise Missing("finding mutants needs the Python package libclang: pip install libclang") from None
    return cindex


def files_of(root, room):
    """Sources of a room in scope, .cpp first, so that headers are seen from where they are included."""
    found = []
    for path in SCOPE[room]:
        whole = os.path.join(root, path)
        if os.path.isfile(whole):
            found.append(path)
        for folder, _, names in os.walk(whole):
            found += [os.path.relpath(os.path.join(folder, n), root) for n in names if n.endswith((".cpp", ".hpp"))]
    return sorted(found, key=lambda f: (f.endswith(".hpp"), f))


class Mutant:
    """One change. `edits` are (offset, length, text) in the file's bytes; '@' in a text stands for the mutant's number."""

    def __init__(self, file, line, kind, change, place, edits):
        self.file, self.line, self.kind, self.change, self.place, self.edits = file, line, kind, change, place, edits
        self.key = ""

    def as_json(self):
        return {"file": self.file, "line": self.line, "kind": self.kind, "change": self.change, "place": self.place, "edits": self.edits}


class Source:
    def __init__(self, root, path):
        self.path = path
        with open(os.path.join(root, path), "rb") as f:
            self.bytes = f.read()
        self.starts = [0] + [m.end() for m in re.finditer(rb"\n", self.bytes)]

    def text(self, begin, end):
        return self.bytes[begin:end].decode()

    def line(self, offset):
        return bisect.bisect_right(self.starts, offset)

    def line_text(self, number):
        end = self.starts[number] - 1 if number < len(self.starts) else len(self.bytes)
        return self.text(self.starts[number - 1], end)


class Finder:
    """Walks the syntax tree of one file's declarations."""

    def __init__(self, cindex, source, found):
        self.k, self.source, self.found = cindex.CursorKind, source, found
        self.type = cindex.TypeKind
        k = self.k
        self.constant = {k.STATIC_ASSERT, k.ENUM_CONSTANT_DECL, k.TEMPLATE_NON_TYPE_PARAMETER, k.TEMPLATE_TYPE_PARAMETER,
                         k.TEMPLATE_TEMPLATE_PARAMETER, k.TYPE_ALIAS_DECL, k.TYPEDEF_DECL, k.FRIEND_DECL}
        self.declared = {k.VAR_DECL, k.FIELD_DECL, k.PARM_DECL}
        self.functions = {k.FUNCTION_DECL, k.CXX_METHOD, k.CONSTRUCTOR, k.DESTRUCTOR, k.FUNCTION_TEMPLATE, k.CONVERSION_FUNCTION}

    # -- where things stand
    def span(self, cursor):
        return cursor.extent.start.offset, cursor.extent.end.offset

    def here(self, cursor):
        f = cursor.extent.start.file
        return f is not None and f.name.endswith(self.source.path)

    def bare(self, cursor):
        """Behind implicit conversions and parentheses."""
        while cursor.kind in (self.k.UNEXPOSED_EXPR, self.k.PAREN_EXPR):
            inner = list(cursor.get_children())
            if len(inner) != 1:
                break
            cursor = inner[0]
        return cursor

    def operator(self, cursor):
        """(operator, left, right) of a binary operator, built in or of a class; None of anything else."""
        inner = list(cursor.get_children())
        if cursor.kind in (self.k.BINARY_OPERATOR, self.k.COMPOUND_ASSIGNMENT_OPERATOR) and len(inner) == 2:
            left, right = inner
        elif cursor.kind == self.k.CALL_EXPR and len(inner) == 3 and cursor.spelling.startswith("operator"):
            left, _, right = inner
        else:
            return None
        text = self.source.text(*self.between(left, right))
        return (text, left, right) if 0 < len(text) <= 3 else None

    def between(self, left, right):
        """The span of the operator between two operands, without space and remarks."""
        begin, end = left.extent.end.offset, right.extent.start.offset
        text = re.sub(r"//[^\n]*", lambda m: " " * len(m.group()), self.source.bytes[begin:end].decode("latin-1"))
        return begin + len(text) - len(text.lstrip()), begin + len(text.rstrip())

    # -- what is found
    def add(self, cursor, kind, original, changed, edits):
        begin, end = self.span(cursor)
        self.found.append((self.source, begin, end, kind, original, changed, edits))

    def binary(self, cursor, kind, op, other, sides, call="either"):
        left, right = sides
        begin, end = self.span(cursor)
        at, behind = self.between(left, right)
        head = f"::mutants::{call}<::mutants::{FUNCTORS[op.rstrip('=') if call == 'assign' else op]}, ::mutants::{FUNCTORS[other]}>(@, "
        change = (at, behind, op, other + ("=" if call == "assign" else ""))
        self.add(cursor, kind, change[2], change[3], [(begin, 0, head), (at, behind - at, ","), (end, 0, ")")])

    def is_arithmetic(self, cursor):
        t = cursor.type.get_canonical()
        return t.kind in (self.type.INT, self.type.UINT, self.type.LONG, self.type.ULONG, self.type.LONGLONG, self.type.ULONGLONG,
                          self.type.DOUBLE, self.type.FLOAT, self.type.SHORT, self.type.USHORT, self.type.SCHAR, self.type.UCHAR,
                          self.type.CHAR_S, self.type.DEPENDENT)

    def is_quantity(self, cursor):
        return re.fullmatch(r"(const )?rehearsal::Quantity<.*>( &)?", cursor.type.get_canonical().spelling) is not None

    def fits(self, op, left, right):
        """Does the operator that takes `op`'s place give the same type?"""
        a, b = self.is_arithmetic(left), self.is_arithmetic(right)
        if a and b:
            return True
        if not self.is_quantity(left):
            return op in "+-" and left.type.get_canonical().kind == self.type.POINTER and b
        same = left.type.get_canonical().spelling.replace("const ", "") == right.type.get_canonical().spelling.replace("const ", "")
        return (op in "+-" and same) or (op in "*/" and b)

    def expression(self, cursor):
        found = self.operator(cursor)
        if found is None:
            return
        op, left, right = found
        if op in ARITHMETIC and self.fits(op, left, right):
            self.binary(cursor, "arithmetic", op, ARITHMETIC[op], (left, right))
        elif op[:-1] in ARITHMETIC and op[-1] == "=" and self.fits(op[:-1], left, right):
            self.binary(cursor, "arithmetic", op, ARITHMETIC[op[:-1]], (left, right), "assign")
        if op in COMPARISONS and self.source.text(*self.span(right)) != "nullptr":
            if op in BOUNDS:
                self.binary(cursor, "bound", op, BOUNDS[op], (left, right))
            self.binary(cursor, "comparison", op, COMPARISONS[op], (left, right))
        if op in LOGIC:
            at, behind = self.between(left, right)
            begin, end = self.span(cursor)
            self.add(cursor, "logic", op, LOGIC[op], [
                (begin, 0, f"((static_cast<bool>("), (at, behind - at, f") != {ON}) {op} (static_cast<bool>("), (end, 0, f") != {ON})) != {ON}")])

    def unary(self, cursor, parent):
        begin, end = self.span(cursor)
        sign = self.source.text(begin, begin + 2)
        inner = next(iter(cursor.get_children()))
        if sign in ("++", "--"):
            if parent.kind == self.k.COMPOUND_STMT:
                self.add(cursor, "arithmetic", sign, "--" if sign == "++" else "++",
                         [(begin, 2, "::mutants::count(@, "), (end, 0, f", {1 if sign == '++' else -1})")])
        elif sign[0] == "-" and self.is_arithmetic(inner) and self.bare(inner).kind != self.k.INTEGER_LITERAL:
            self.add(cursor, "arithmetic", "-", "", [(begin, 1, "::mutants::sign(@, "), (end, 0, ")")])
        elif sign[0] == "!" and sign != "!=":  # a != that stands for == negated is found as such
            self.add(cursor, "condition", "!", "", [(begin, 1, "(static_cast<bool>("), (end, 0, f") == {ON})")])

    def number(self, cursor, parent):
        begin, end = self.span(cursor)
        text = self.source.text(begin, end)
        if not re.fullmatch(r"\d+", text):
            return
        before, after = self.source.text(max(0, begin - 40), begin).rstrip(), self.source.text(end, end + 40).lstrip()
        comparing = parent.kind == self.k.BINARY_OPERATOR
        if (after.startswith(">") and not comparing) or (before.endswith("<") and not comparing) or before.endswith(":") and "case" in before:
            return
        if parent.kind in self.declared and before.endswith("["):
            return
        other = str(int(text) + 1)
        self.add(cursor, "number", text, other, [(begin, end - begin, f"::mutants::number(@, {text}, {other})")])

    def condition(self, cursor):
        """Negates what an `if`, a `while` or a `?:` asks, unless another change of the same expression does so."""
        bare = self.bare(cursor)
        found = self.operator(bare)
        if found and found[0] in COMPARISONS or bare.kind in (self.k.UNARY_OPERATOR, self.k.CXX_BOOL_LITERAL_EXPR):
            return
        begin, end = self.span(cursor)
        text = self.source.text(begin, end)
        self.add(cursor, "condition", text, f"!({text})", [(begin, 0, "(static_cast<bool>("), (end, 0, f") != {ON})")])

    def call(self, cursor):
        """Leaves out a call whose result nobody takes."""
        if cursor.spelling == "reserve":
            return
        begin, end = self.span(cursor)
        self.add(cursor, "call", self.source.text(begin, end), "", [(begin, 0, f"({ON} ? void() : void("), (end, 0, "))")])

    # -- the walk
    def is_constant(self, cursor):
        if cursor.kind in self.constant:
            return True
        if cursor.kind in self.functions or cursor.kind == self.k.VAR_DECL:
            begin = cursor.extent.start.offset
            name = cursor.location.offset
            head = self.source.text(begin, max(begin, name))
            return re.search(r"\b(constexpr|consteval|constinit)\b", head) is not None
        return False

    def statements(self, cursor, inner):
        k = self.k
        if cursor.kind == k.IF_STMT:
            # What declares something has statements or declarations first; only plain conditions are changed.
            if inner[0].kind.is_expression():
                self.condition(inner[0])
        elif cursor.kind in (k.WHILE_STMT, k.CONDITIONAL_OPERATOR) and inner[0].kind.is_expression():
            self.condition(inner[0])
        first = {k.COMPOUND_STMT: 0, k.IF_STMT: 1, k.FOR_STMT: len(inner) - 1, k.CXX_FOR_RANGE_STMT: len(inner) - 1, k.WHILE_STMT: 1}
        for c in inner[first.get(cursor.kind, len(inner)):]:
            bare = self.bare(c)
            end = bare.extent.end.offset
            if bare.kind == k.CALL_EXPR and self.operator(bare) is None and self.source.text(end - 1, end + 1) == ");":
                self.call(bare)

    def skipped(self, cursor, parent):
        """Types, template arguments and what else the compiler evaluates."""
        k = self.k
        if parent.kind in self.declared and cursor.kind.is_expression() and cursor.extent.start.offset < parent.location.offset:
            return True
        if parent.kind == k.CASE_STMT and cursor == next(iter(parent.get_children())):
            return True
        if parent.kind == k.DECL_REF_EXPR:
            return True
        return parent.kind == k.MEMBER_REF_EXPR and cursor.extent.start.offset > parent.location.offset

    def walk(self, cursor, parent):
        if not self.here(cursor) or self.is_constant(cursor) or self.skipped(cursor, parent):
            return
        inner = list(cursor.get_children())
        if cursor.kind == self.k.IF_STMT and re.match(r"if\s+constexpr", self.source.text(*self.span(cursor))):
            inner = inner[1:]
        elif inner:
            self.statements(cursor, inner)
        if cursor.kind == self.k.UNARY_OPERATOR and inner:
            self.unary(cursor, parent)
        elif cursor.kind == self.k.INTEGER_LITERAL:
            self.number(cursor, parent)
        elif cursor.kind.is_expression():
            self.expression(cursor)
        for c in inner:
            self.walk(c, cursor)


def as_mutants(found):
    """Without doubles (headers and instantiations are met several times), each with the line as it was and as it would be."""
    unique = {}
    for source, begin, end, kind, original, changed, edits in found:
        unique.setdefault((source.path, begin, end, kind, changed), (source, begin, original, edits))
    mutants, times = [], {}
    for (path, begin, end, kind, changed), (source, _, original, edits) in sorted(unique.items(), key=lambda item: item[0]):
        at = next((offset for offset, length, _ in edits if length), begin)
        line = source.line(at)
        text = source.line_text(line)
        column, encoded = at - source.starts[line - 1], text.encode()
        new = encoded[:column] + changed.encode() + encoded[column + len(original.encode()):]
        m = Mutant(path, line, kind, [text.strip(), new.decode().strip()], [begin, end], edits)
        identity = "\0".join((path, kind, *m.change))
        times[identity] = times.get(identity, 0) + 1
        m.key = hashlib.sha256(f"{identity}\0{times[identity]}".encode()).hexdigest()[:16]
        mutants.append(m)
    return mutants


def compiled_as(build, room):
    """[(file, the compiler's arguments)] of a room's library, out of compile_commands.json; in a unity build a file is a dozen."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
        entries = [e for e in json.load(f) if f"rehearsal_{room}.dir/" in e.get("output", e["command"])]
    own = subprocess.run(["c++", "-print-file-name=include"], capture_output=True, text=True, check=True).stdout.strip()
    for e in entries:
        words, args = e["command"].split(), []
        for i, word in enumerate(words):
            if word.startswith(("-I", "-D", "-std")):
                args.append(word)
            elif word == "-isystem":
                args += [word, words[i + 1]]
        # Eigen without the headers of intrinsics, which are written for one compiler.
        yield e["file"], ["-xc++", *args, "-isystem", own, "-DEIGEN_DONT_VECTORIZE", "-Wno-everything"]


def find_in_room(root, build, room):
    cindex = libclang()
    sources, found, seen = {f: Source(root, f) for f in files_of(root, room)}, [], set()
    for file, arguments in compiled_as(build, room):
        with open(file, encoding="utf-8") as f:
            text = f.read()
        if file.endswith(".cxx") and not any(f'/{path}"' in text for path in sources):
            continue
        # Generated files are not there before the first build, and hold nothing that is changed.
        text = "".join(line + "\n" for line in text.splitlines() if not line.startswith('#include "/') or os.path.exists(line.split('"')[1]))
        unit = cindex.Index.create().parse(file, args=arguments, unsaved_files=[(file, text)])
        errors = [d for d in unit.diagnostics if d.severity >= cindex.Diagnostic.Error]
        if errors:
            raise RuntimeError(f"libclang cannot read {room}: {errors[0]}")
        here = set()
        for cursor in unit.cursor.get_children():
            f = cursor.extent.start.file
            path = os.path.relpath(f.name, root) if f else None
            if path in sources and path not in seen:
                here.add(path)
                Finder(cindex, sources[path], found).walk(cursor, unit.cursor)
        seen |= here
    return as_mutants(found)
