"""One name, one thing. A dozen files of a room are compiled as one: two functions of one name in their unnamed namespaces are refused by the compiler where
their parameters are the same; where these merely convert into each other, a call of one file silently takes the function of another."""
import collections
import re

from sources import bare

UNNAMED = re.compile(r"^namespace \{\n(.*?)^\}  // namespace\n", re.DOTALL | re.MULTILINE)
FUNCTION = re.compile(r"^(?:\[\[\w+\]\] )?[\w:][\w:<>,&* ]*?[ &*](\w+)\(([^;{()]*)\)(?: noexcept)? \{", re.MULTILINE)
NUMBER = re.compile(r"^(const )?(bool|int|long|unsigned|char|float|double|std::size_t|std::u?int\d+_t)$")
TEXT = re.compile(r"^(const )?(std::string(_view)?( ?&)?|(const )?char ?\*)$")


TYPE = re.compile(r"^(?:struct|class|enum class|enum|using)\s+(\w+)(?:\s+final)?\s*(?::(?!:)[^;{]*)?[{=]", re.MULTILINE)


def kind_of(parameter):
    """What it takes: "number", "text", or the type as it is written."""
    declared = re.sub(r"\s*=.*", "", " ".join(parameter.split()))
    named = re.match(r"^(.*?[\s&*])\w+$", declared)
    type_ = (named.group(1) if named else declared).strip()
    return "number" if NUMBER.match(type_) else "text" if TEXT.match(type_) else type_


def parameters_of(text):
    """Split at the commas outside of angle brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c == "<") - (c == ">")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [p for p in parts if p.strip()]


def check_overloads(root, files, sources):
    """Functions of several files of a room that a call could mean alike."""
    declared = collections.defaultdict(set)
    for source in sources:
        if source.in_tests or not source.path.endswith(".cpp"):
            continue
        for body in UNNAMED.findall(source.text):
            for match in FUNCTION.finditer(body):
                kinds = tuple(kind_of(p) for p in parameters_of(match.group(2)))
                declared[source.room, match.group(1), kinds].add((source.path, " ".join(match.group(2).split())))
    found = []
    for (room, name, kinds), places in sorted(declared.items()):
        (one, takes), *others = sorted(places)
        for other, takes_there in others:
            # Equal types are the compiler's to refuse.
            if other != one and types_of(takes) != types_of(takes_there):
                found.append(f"{one}: calls of {name}({takes}) may mean the one of {other}, ({takes_there}), where files are compiled "
                             "as one; give one of them another name")
    return found


def types_of(parameters):
    return [re.sub(r"(?<=[\s&*])\w+$", "", p.strip()) for p in parameters_of(parameters)]


def backend_of(path):
    """The folder of kernels that a file belongs to, which has its own words for what every backend has; None elsewhere."""
    match = re.match(r"exec/kernels/(\w+)/", path)
    return match and match.group(1)


def check_types(root, files, sources):
    """Types of several headers that have one name; what lies within a class may be called as its owner likes."""
    declared = collections.defaultdict(set)
    for source in sources:
        if source.is_header and not source.in_tests:
            for name in TYPE.findall(bare(source.text)):
                declared[name].add(source.path)
    for name, paths in sorted(declared.items()):
        one, *others = sorted(paths)
        backends = {backend_of(path) for path in paths}
        if others and (None in backends or len(backends) < len(paths)):
            yield f"{one}: {others[0]} has another {name}; call two things by two names"


RULES = {"overload": check_overloads, "type-name": check_types}
