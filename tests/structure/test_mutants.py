#!/usr/bin/env python3
"""scripts/mutants finds every kind of change in a small program, compiles all of them in at once, and switches them one at a time.

Ends with 77 where the Python package libclang is missing."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts"))
sys.dont_write_bytecode = True
try:
    import clang.cindex  # noqa: F401
except ImportError:
    print("the Python package libclang is not installed")
    sys.exit(77)
from mutation import find, tree

PROGRAM = r"""#include <cstdio>
#include <string>
#include <vector>
constexpr int kFixed = 2 + 3;
template <int N> int fixed() { return N; }
static_assert(kFixed == 5);
int difference(int a, int b) { return a - b; }
bool is_below(int a, int b) { return a < b; }
bool both(bool a, bool b) { return a && b; }
void fill(std::vector<int>& v) {
  v.reserve(4);
  v.push_back(7);
}
std::string joined(const std::string& a) { return a + "x"; }
const char* sign(bool negative) {
  if (negative) return "-";
  return "+";
}
int steps(int n) {
  int all = 0;
  for (const int one : {n, n}) all += one;
  ++all;
  return -all;
}
int main() {
  std::vector<int> v;
  fill(v);
  std::printf("%d %d%d %d%d %zu %s %s %d %d", difference(5, fixed<3>()), is_below(2, 2), is_below(2, 3), both(true, true), both(true, false),
              v.size(), joined("a").c_str(), sign(v.empty()), steps(kFixed), kFixed * 1);
}
"""
UNCHANGED = "2 01 10 1 ax + -11 5"
# (kind, part of the line as it is then) and what the program then prints
CHANGED = {
    ("arithmetic", "return a + b;"): "8 01 10 1 ax + -11 5",
    ("bound", "return a <= b;"): "2 11 10 1 ax + -11 5",
    ("comparison", "return a >= b;"): "2 10 10 1 ax + -11 5",
    ("logic", "return a || b;"): "2 01 11 1 ax + -11 5",
    ("call", ";"): "2 01 10 0 ax - -11 5",
    ("condition", "if (!(negative))"): "2 01 10 1 ax - -11 5",
    ("arithmetic", "all -= one;"): "2 01 10 1 ax + 9 5",
    ("arithmetic", "--all;"): "2 01 10 1 ax + -9 5",
    ("arithmetic", "return all;"): "2 01 10 1 ax + 11 5",
    ("arithmetic", "kFixed / 1"): UNCHANGED,  # an equivalent one
    ("number", "kFixed * 2"): "2 01 10 1 ax + -11 10",
    ("number", "v.push_back(8)"): UNCHANGED,
    ("number", "int all = 1"): "2 01 10 1 ax + -12 5",
    ("number", "difference(6,"): "3 01 10 1 ax + -11 5",
}


class Switched(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        root = cls.folder.name
        os.makedirs(os.path.join(root, "sim"))
        cls.file = os.path.join(root, "sim", "program.cpp")
        with open(cls.file, "w", encoding="utf-8") as f:
            f.write(PROGRAM)
        command = {"directory": root, "file": cls.file, "command": f"c++ -I{root} -std=c++20 -o sim/rehearsal_sim.dir/program.o -c {cls.file}"}
        with open(os.path.join(root, "compile_commands.json"), "w", encoding="utf-8") as f:
            json.dump([command], f)
        cls.mutants = find.find_in_room(root, root, "sim")
        chosen = []
        for m in ({**m.as_json(), "key": m.key} for m in cls.mutants):
            if not tree.clashing(m, chosen):
                chosen.append(m)
        cls.chosen = chosen
        with open(cls.file, "wb") as f:
            f.write(tree.instrumented(PROGRAM.encode(), list(enumerate(chosen))))
        cls.program = os.path.join(root, "program")
        subprocess.run(["c++", "-std=c++20", f"-I{tree.HERE}", "-o", cls.program, cls.file], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def printed(self, mutant=None, reached=None):
        environment = {**os.environ, **({"REHEARSAL_MUTANT": str(mutant)} if mutant is not None else {}),
                       **({"REHEARSAL_MUTANTS_REACHED": reached} if reached else {})}
        return subprocess.run([self.program], env=environment, capture_output=True, text=True, check=False).stdout

    def test_without_a_mutant_the_program_is_the_original(self):
        self.assertEqual(self.printed(), UNCHANGED)

    def test_every_kind_is_found_and_does_what_its_line_says(self):
        for (kind, part), expected in CHANGED.items():
            numbers = [n for n, m in enumerate(self.chosen) if m["kind"] == kind and part in m["change"][1] and "fill" not in m["change"][0]]
            found = [m for m in self.mutants if m.kind == kind and part in m.change[1] and "fill" not in m.change[0]]
            with self.subTest(kind=kind, line=part):
                self.assertEqual(len(found), 1)
                if numbers:  # of two changes of one token one is compiled in
                    self.assertEqual(self.printed(numbers[0]), expected)

    def test_what_the_compiler_evaluates_and_text_is_left_alone(self):
        lines = {m.change[0] for m in self.mutants}
        for line in ("constexpr int kFixed = 2 + 3;", "static_assert(kFixed == 5);", 'std::string joined(const std::string& a) { return a + "x"; }'):
            self.assertNotIn(line, lines)
        self.assertFalse([m.change for m in self.mutants if "fixed<4>" in m.change[1] or m.kind == "call" and "reserve" in m.change[0]])

    def test_the_record_says_which_mutants_were_met(self):
        reached = os.path.join(self.folder.name, "reached")
        with open(reached, "wb") as f:
            f.write(bytes(len(self.chosen)))
        self.printed(reached=reached)
        with open(reached, "rb") as f:
            self.assertEqual(f.read(), b"\1" * len(self.chosen), "main() comes by everything")

    def test_every_mutant_has_a_name_of_its_own(self):
        self.assertEqual(len({m.key for m in self.mutants}), len(self.mutants))


if __name__ == "__main__":
    unittest.main()
