#!/usr/bin/env python3
"""Every rule of check_rooms.py fires on a tiny tree that breaks it, and on nothing else; a tree without faults passes."""
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True
from check_rooms import violations_of
from shape_rules import functions_of, nesting_of

CLEAN = {
    "base/units.hpp": "#pragma once\nnamespace rehearsal { struct Seconds { double value; }; }\n",
    "graph/graph.hpp": '#pragma once\n#include <nlohmann/json_fwd.hpp>\n#include "base/units.hpp"\n',
    "graph/graph.cpp": '#include "graph/graph.hpp"\n#include <nlohmann/json.hpp>\nint f() { return 1; }\n',
    "graph/sizes.cpp": "namespace {\nvoid require(int n, std::string_view what) {\n}\n}  // namespace\n",
    "exec/comm/mpi_types.hpp": "#pragma once\n#include <mpi.h>\n",
    "exec/comm/ring.cpp": '#include "exec/comm/mpi_types.hpp"\n#include "plan/program/program.hpp"\n',
    "plan/program/program.hpp": '#pragma once\n#include "plan/plan.hpp"\n',
    "plan/plan.hpp": "#pragma once\nstruct Plan {\n};\nstruct Row {\n};\n",
    "exec/kernels/one/rows.hpp": "#pragma once\nusing Rows = int;\n",  # backends may name alike what both have
    "exec/kernels/two/rows.hpp": "#pragma once\nusing Rows = long;\n",
    "plan/keys/plan_keys.cpp": '#include "plan/plan.hpp"\n#include "plan/schedules/schedule_rows.hpp"\n',
    "plan/schedules/schedule_rows.hpp": '#pragma once\n#include "plan/program/program.hpp"\n',
    "cli/main.cpp": '#include <CLI/CLI.hpp>\n#include "exec/execute.hpp"\nint main() { std::exit(0); }\n',
    "tests/graph/graph.cpp": '#include "exec/execute.hpp"\n#include "tests/catch.hpp"\n',
}
LONG = "int g() {\n" + "".join(f"  f({i});\n" for i in range(49)) + "}\n"  # 51 lines, from the name to the closing brace
DEEP = "int g() {\n" + "".join("  " * depth + f"if (f({depth}))\n" for depth in range(1, 6)) + "            return 1;\n  return 0;\n}\n"
TWICE = "int {}() {{\n" + "".join(f"  value += {i} * value;\n" for i in range(12)) + "}}\n"

# (rules that must fire, path, text added there); a cycle always holds an upward include
FAULTS = [
    ("order", "graph/up.cpp", '#include "plan/program/program.hpp"\n'),
    ("order", "exec/sees_sim.cpp", '#include "sim/engine.hpp"\n'),
    ("order", "cli/opens_sim.cpp", '#include "sim/engine.hpp"\n'),
    ("order", "graph/test_code.cpp", '#include "tests/catch.hpp"\n'),
    ("cycle order", "base/units.hpp", '#pragma once\n#include "graph/graph.hpp"\n'),
    ("folder-cycle", "plan/plan.cpp", '#include "plan/schedules/schedule_rows.hpp"\n'),  # a folder and the one that it lies in
    ("folder-cycle", "plan/program/a.cpp", '#include "plan/keys/key_names.hpp"\n'),     # three folders
    ("vendor", "plan/a.cpp", "#include <simgrid/s4u.hpp>\n"),
    ("vendor", "sim/a.cpp", "#include <mpi.h>\n"),
    ("vendor", "cli/a.cpp", "#include <mpi.h>\n"),
    ("vendor", "graph/a.cpp", '#include "onnx/onnx.pb.h"\n'),
    ("vendor", "plan/b.cpp", "#include <google/protobuf/message.h>\n"),
    ("vendor", "graph/b.cpp", "#include <dnnl.hpp>\n"),
    ("vendor", "plan/c.cpp", "#include <omp.h>\n"),
    ("vendor", "costmodel/a.cpp", "#include <hwloc.h>\n"),
    ("vendor", "plan/d.cpp", "#include <CLI/CLI.hpp>\n"),
    ("vendor", "graph/d.cpp", "#include <valijson/schema.hpp>\n"),
    ("vendor", "plan/e.cpp", "#include <Eigen/Dense>\n"),
    ("vendor", "costmodel/f.cpp", "#include <xxhash.h>\n"),
    ("vendor", "graph/g.cpp", "#include <catch2/catch.hpp>\n"),
    ("vendor", "exec/gpu_but_in_plan.cpp", "#include <simgrid/host.h>\n"),
    ("public-header", "exec/execute.hpp", "#pragma once\n#include <mpi.h>\n"),
    ("public-header", "exec/through.hpp", '#pragma once\n#include "exec/comm/mpi_types.hpp"\n'),
    ("public-header", "graph/json.hpp", "#pragma once\n#include <nlohmann/json.hpp>\n"),
    ("public-header", "cli/reaches_in.cpp", '#include "exec/comm/mpi_types.hpp"\n'),
    ("function", "graph/long.cpp", LONG),
    ("function", "graph/deep.cpp", DEEP),
    ("function", "graph/wide.cpp", "int h(int a, std::map<int, int> b, int c, int d, int e, int f) { return a; }\n"),
    ("file-length", "graph/endless.cpp", "\n" * 501),
    ("repetition", "graph/twice.cpp", TWICE.format("a") + TWICE.format("b")),
    ("overload", "graph/a.cpp", "namespace {\nvoid require(std::size_t n, const char* why) {\n}\n}  // namespace\n"),
    ("type-name", "plan/again.hpp", "#pragma once\nclass Plan {\n};\n"),
    ("type-name", "exec/kernels/one/row.hpp", "#pragma once\nclass Row {\n};\n"),
    ("name", "graph/utils.cpp", ""),
    ("name", "graph/shape_helper.cpp", ""),
    ("name", "graph/manager.cpp", "class PlanManager {};\n"),
    ("header", "graph/open.hpp", "#pragma once\nusing namespace rehearsal;\n"),
    ("header", "graph/unguarded.hpp", "int f();\n"),
    ("printing", "graph/loud.cpp", 'void f() { std::cout << "x"; }\n'),
    ("printing", "graph/ends.cpp", "void f() { exit(1); }\n"),
    ("word", "docs/notes.md", "see /" + "root/somewhere\n"),
    ("word", "scripts/run", "cd /" + "work/main\n"),
    ("word", "graph/later.cpp", "// TO" + "DO\n"),
    ("catch", "tests/graph/own.cpp", "using Catch::Matchers::Contains;\n"),
    ("catch", "tests/graph/direct.cpp", "#include <catch2/catch.hpp>\n"),
    ("path", "docs/notes.md", "see `graph/gone.hpp`\n"),
    ("path", "graph/comment.cpp", "// as in graph/gone.cpp\n"),
    ("allowed", "tests/structure/allowed.txt", "graph/graph.cpp gone\n"),
]


def write_tree(root, files):
    for path, text in files.items():
        os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
        with open(os.path.join(root, path), "w", encoding="utf-8") as f:
            f.write(text)


def rules_fired(*trees):
    with tempfile.TemporaryDirectory() as root:
        for tree in trees:
            write_tree(root, tree)
        return {rule for rule, _ in violations_of(root)}


class Rules(unittest.TestCase):
    def test_clean_tree_passes(self):
        self.assertEqual(rules_fired(CLEAN), set())

    def test_each_fault_is_found(self):
        for rules, path, text in FAULTS:
            with self.subTest(rules=rules, path=path):
                self.assertEqual(rules_fired(CLEAN, {path: text}), set(rules.split()))

    def test_every_rule_has_a_fault(self):
        import room_rules
        import shape_rules
        import unity_rules
        self.assertEqual({rule for rules, _, _ in FAULTS for rule in rules.split()} | {"operator"}, {*room_rules.RULES, *shape_rules.RULES, *unity_rules.RULES, "operator", "allowed"})

    def test_few_files_decide_by_the_name_of_an_operator(self):
        row = {"graph/ops/softmax.cpp": 'constexpr OpSchema kRows[] = {{.name = "Softmax"}};\n', "graph/zoo/gpt.cpp": 'f("Softmax");\n'}
        writes = {f"plan/writes{i}.cpp": 'b.add("Softmax", {x});\n' for i in range(9)}
        asks = {f"plan/asks{i}.cpp": f'bool f{i}() {{ return name == "Softmax"; }}\n' for i in range(6)}
        self.assertEqual(rules_fired(CLEAN, row, writes, asks), {"operator"})
        del asks["plan/asks5.cpp"]
        self.assertEqual(rules_fired(CLEAN, row, writes, asks), set())

    def test_allowed_size_is_silent(self):
        self.assertEqual(rules_fired(CLEAN, {"graph/long.cpp": LONG, "tests/structure/allowed.txt": "graph/long.cpp g\n"}), set())

    def test_status_of_the_command(self):
        for files, status in ((CLEAN, 0), ({**CLEAN, "plan/a.cpp": "#include <dnnl.hpp>\n"}, 1)):
            with tempfile.TemporaryDirectory() as root:
                write_tree(root, files)
                ended = subprocess.run([sys.executable, os.path.join(HERE, "check_rooms.py"), "--rooms-only", root], capture_output=True, text=True)
                self.assertEqual(ended.returncode, status, ended.stdout + ended.stderr)


class Functions(unittest.TestCase):
    def names(self, text):
        return [(name, lines, parameters) for name, _, lines, parameters in functions_of(text)]

    def test_plain_member_and_operator(self):
        text = "namespace a {\nclass B {\n public:\n  int c() const {\n    return 1;\n  }\n};\n}\nB operator+(B x, B y) { return x; }\n"
        self.assertEqual(self.names(text), [("c", 3, 0), ("operator+", 1, 2)])

    def test_constructor_with_braces_in_its_list(self):
        self.assertEqual(self.names("A::A(int x) : a_{x}, b_{2} {\n  go();\n}\n"), [("A::A", 3, 1)])

    def test_tables_and_lambdas_are_not_functions(self):
        self.assertEqual(self.names("const Row kRows[] = {{1, f(2)}, {3, f(4)}};\nauto k = [](int x) { return x; };\n"), [])

    def test_a_lambda_belongs_to_its_function(self):
        self.assertEqual(self.names("void f() {\n  auto g = [&](int x) {\n    return x;\n  };\n}\n"), [("f", 5, 0)])

    def test_literals_and_comments_are_skipped(self):
        self.assertEqual(self.names('void f() {\n  // }\n  g("}", \'}\', 1\'000, R"(})");\n}\n'), [("f", 4, 0)])

    def test_templates(self):
        self.assertEqual(self.names("template <class T, class U>\nT max(std::pair<T, U> a, T b) {\n  return b;\n}\n"), [("max", 3, 2)])

    def test_nesting_ends_where_the_layout_says(self):
        self.assertEqual(nesting_of("  if (a) {\n    b();\n  } else {\n    for (;;)\n      c();\n  }\n  while (d) e();\n".splitlines()), 2)


if __name__ == "__main__":
    unittest.main()
