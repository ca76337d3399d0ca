"""A dozen files of a room are compiled as one. Two functions of one name in their unnamed namespaces are refused by the compiler where
their parameters are the same; where these merely convert into each other, a call of one file silently takes the function of another."""
import collections
import re

UNNAMED = re.compile(r"^namespace \{\n(.*?)^\}  // namespace\n", re.DOTALL | re.MULTILINE)
FUNCTION = re.compile(r"^(?:\[\[\w+\]\] )?[\w:][\w:<>,&* ]*?[ &*](\w+)\(([^;{()]*)\)(?: noexcept)? \{", re.MULTILINE)
NUMBER = re.compile(r"^(const )?(bool|int|long|unsigned|char|float|double|std::size_t|std::u?int\d+_t)$")
TEXT = re.compile(r"^(const )?(std::string(_view)?( ?&)?|(const )?char ?\*)$")


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


RULES = {"overload": check_overloads}
