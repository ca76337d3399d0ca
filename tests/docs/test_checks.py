#!/usr/bin/env python3
"""The checks of the documentation find what they are there for."""
import contextlib
import io
import tempfile
import unittest
from pathlib import Path

from check_examples import Problems, check_numbers, check_page
from check_links import find_problems
from pages import anchors, read_page
from shown import first_missing, nearest, quantities, refreshed

PRINTED = ["step   177 ms", "total  177 ms", "memory 4.97 GB of 17.2 GB", "rank 0 has 2 ms", "rank 1 has 3 ms"]


class Shown(unittest.TestCase):
    def test_lines_follow_each_other_unless_some_are_left_out(self):
        self.assertIsNone(first_missing(["step 177 ms", "total 177 ms"], PRINTED))
        self.assertEqual(first_missing(["step 177 ms", "memory 4.97 GB of 17.2 GB"], PRINTED), 1)
        self.assertIsNone(first_missing(["step 177 ms", "…", "memory 4.97 GB …"], PRINTED))

    def test_a_number_that_changed_is_found_and_refreshed(self):
        old = ["step 178 ms", "…", "rank 1 has …"]
        self.assertEqual(first_missing(old, PRINTED), 0)
        self.assertEqual(refreshed(old, PRINTED), ["step   177 ms", "…", "rank 1 has …"])

    def test_what_is_no_longer_printed_is_not_refreshed(self):
        with self.assertRaises(ValueError):
            refreshed(["bubble 3 ms of rank 9"], PRINTED[:2])

    def test_quantities_are_numbers_with_units(self):
        self.assertEqual(quantities("takes 177 ms or $1,024 with `dp=4` on 4 GPUs"), ["177 ms", "$1,024"])

    def test_the_nearest_quantity_has_the_same_unit(self):
        text = "step 91 ms, 88.4 ms before, 88.2 s in all, $1,024"
        self.assertEqual(nearest("88.1 ms", text, 1.5), "88.4 ms")
        self.assertEqual(nearest("$1,000", text, 1.5), "$1,024")
        self.assertIsNone(nearest("40 ms", text, 1.5))  # 88.4 is 2.2 times as much
        self.assertIsNone(nearest("88 GB", text, 1.5))


class Pages(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)
        (self.root / "docs" / "tutorials").mkdir(parents=True)
        (self.root / "tests").mkdir()
        (self.root / "README.md").write_text("# Home\n")
        self.addCleanup(self.folder.cleanup)

    def page(self, text, name="docs/tutorials/page.md"):
        path = self.root / name
        path.write_text(text, encoding="utf-8")
        return path

    def problems(self, text):
        problems = Problems(self.root)
        options = type("Options", (), {"root": self.root, "refresh": False, "variables": {"PATH": "/usr/bin:/bin"}})
        with contextlib.redirect_stdout(io.StringIO()) as said:
            check_page(self.page(text), options, problems)
        return said.getvalue()

    def test_links(self):
        self.page("# One\n[home](../../README.md#home) [gone](gone.md) [two](#two) `[no](link.md)`\n")
        whats = [what for _, _, what in find_problems(self.root)]
        self.assertEqual(len(whats), 2)
        self.assertIn("gone.md", whats[0])
        self.assertIn("#two", whats[1])

    def test_names_that_a_link_shows(self):
        self.page("struct Graph {};\n", "graph.hpp")
        self.page("# One\n[`Graph`](../../graph.hpp) [`graph::Graph`](../../graph.hpp) [`build()`](../../graph.hpp)\n")
        self.assertEqual([what for _, _, what in find_problems(self.root)], ["../../graph.hpp has no build"])

    def test_pages_that_sources_name(self):
        self.page('// (docs/tutorials/page.md#one), (docs/none.md)\n', "source.cpp")
        self.page("# One\n")
        self.assertEqual([what for _, _, what in find_problems(self.root)], ["docs/none.md: there is no such page"])

    def test_anchors(self):
        page = read_page(self.page("# What the vendors' libraries choose\n## Same\n## Same\n```\n# no heading\n```\n"))
        self.assertEqual(anchors(page), {"what-the-vendors-libraries-choose", "same", "same-1"})

    def test_commands_need_a_remark(self):
        self.assertIn("without a remark", self.problems("```\nrehearse zoo\n```\n"))
        self.assertEqual("", self.problems("<!-- not run: takes hours -->\n```\nrehearse zoo\n```\n"))

    def test_status_and_output(self):
        self.assertIn("ended with 3 instead of 0", self.problems("<!-- run -->\n```\nexit 3\n```\n"))
        self.assertEqual("", self.problems("<!-- run: exit 3 -->\n```\nexit 3\n```\n"))
        self.assertEqual("", self.problems("<!-- run -->\n```\necho 1 ms\n```\n<!-- output -->\n```\n1 ms\n```\nOf 1 ms.\n"))
        self.assertIn("is not printed here", self.problems("<!-- run -->\n```\necho 1 ms\n```\n<!-- output -->\n```\n2 ms\n```\n"))
        self.assertIn("skipped", self.problems("<!-- run: needs nothing_has_this -->\n```\nexit 3\n```\n"))

    def test_pictures(self):
        picture = "<!-- run -->\n```\necho '<svg x=\"1\"/>' > a.svg\n```\n![a](a.svg)\n"
        self.page('<svg x="5"/>\n', "docs/tutorials/a.svg")
        self.assertIn("not what the commands above make", self.problems(picture))
        self.page('<svg x="1.5"/>\n', "docs/tutorials/a.svg")
        self.assertEqual("", self.problems(picture))

    def test_tables(self):
        page = "<!-- rows 2: echo step {} -->\n| a | b |\n| --- | --- |\n| `7 ms` | 7 ms |\n| `8 ms` | 9 ms |\n"
        said = self.problems(page)
        self.assertEqual(said.count("is not printed"), 1)
        self.assertIn("9 ms is not printed (any more) by echo step 8 ms", said)

    def test_numbers_in_sentences(self):
        self.assertIn("5 ms stands in no output", self.problems("It takes 5 ms.\n"))
        self.assertEqual("", self.problems("<!-- by hand -->\nIt takes 5 ms.\n"))
        problems = Problems(self.root)
        check_numbers(read_page(self.page("```\n15 ms\n```\nIt takes 15 ms.\n")), type("Options", (), {"refresh": False}), problems)
        self.assertEqual(problems.count, 0)


if __name__ == "__main__":
    unittest.main()
