"""What is known about an operator stands in its row: few files beyond its family decide by its name."""
import re

FILES_WITH_A_NAME = 5
TABLE = "graph/ops/"
# Rows of an operator, operators of files by ONNX's names, models that are written node by node, and patterns of written nodes.
FAMILIES = (TABLE, "exec/kernels/", "formats/onnx/", "graph/zoo/", "graph/patterns/")
NAMED = re.compile(r'\b(?:name = |with(?:out)?_gradient\(\s*)"(\w+)"')
QUOTED = re.compile(r'"([A-Z]\w*)"')
WRITTEN = re.compile(r'\b(?:add|add1|add_\w+|update|emit|emit1|emit_all)\(\s*(?:\*?\w+,\s*)?"(\w+)"')  # a node is written: that decides nothing
COMMENT = re.compile(r"//[^\n]*")


def operators_of(sources):
    return {name for s in sources if s.path.startswith(TABLE) for name in NAMED.findall(s.text) if name[0].isupper()}


def check_operators(root, files, sources):
    """At most FILES_WITH_A_NAME files outside its family decide by an operator's name: facts are fields of OpSchema."""
    operators, places = operators_of(sources), {}
    for s in sources:
        if s.in_tests or s.path.startswith(FAMILIES):
            continue
        text = COMMENT.sub("", s.text)
        written = WRITTEN.findall(text)
        for name in set(QUOTED.findall(text)) & operators:
            if len(re.findall(f'"{name}"', text)) > written.count(name):
                places.setdefault(name, []).append(s.path)
    for name, paths in sorted(places.items()):
        if len(paths) > FILES_WITH_A_NAME:
            yield (f"{paths[FILES_WITH_A_NAME]}:1: '{name}' is asked for by name in {len(paths)} files ({', '.join(paths)}), "
                   f"{FILES_WITH_A_NAME} at most; say what it has in common with others in its row (graph/op_schema.hpp)")
