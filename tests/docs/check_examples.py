#!/usr/bin/env python3
"""check_examples.py ROOT --program REHEARSE [--refresh] [PAGE...]: the examples of the documentation do what they show.

Every block of commands that starts `rehearse` in README.md and docs/ says before it whether it runs (pages.py has the remarks). Those of a
page run one after the other in a folder of their own, in which docs and tests are the repository's, DOCS is docs/, and rehearse is REHEARSE.
What a page shows of the output must be what was printed; a picture beside the page of the name of a file that its commands wrote must be
that file; a table with a remark `rows` has what its commands print; and in tutorials a number with its unit in the text must stand in one of these outputs, unless `<!-- by hand -->` stands before
its paragraph. --refresh writes what is printed now into the pages and pictures in place of what they show; for a number in a table or a
sentence the nearest one of its unit, if it is near: read what it wrote.
Without PAGE: all pages. Exit status 1 if anything differs."""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from pages import LINK, Block, all_pages, checked_rows, read_page
from shown import first_missing, nearest, quantities, refreshed, squeezed

SECONDS = 120  # after which a block is taken to hang
NEAR_IN_TABLES, NEAR_IN_SENTENCES = 1.5, 1.1  # factors between a number and the one that takes its place


def environment(root, program):
    """mpirun as scripts/settings.sh has it: as root in a container, with more ranks than cores; one thread a rank. Kernels are those of
    AVX2, which every machine that builds this has: workspaces, and so predicted memory on processors, depend on them."""
    mpi = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
           "PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
    kernels = {"REHEARSAL_MAX_ISA": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
    return {**os.environ, **mpi, **kernels, "PATH": f"{program.parent}:{os.environ['PATH']}", "DOCS": str(root / "docs"), "PYTHONDONTWRITEBYTECODE": "1"}


class Problems:
    def __init__(self, root):
        self.root, self.count = root, 0

    def say(self, page, line, what):
        self.count += 1
        print(f"{page.path.relative_to(self.root)}:{line + 1}: {what}", flush=True)


def execute(block, folder, variables):
    """(exit status, lines of stdout and stderr together)"""
    command = ["bash", "-e", "-o", "pipefail", "-c", "\n".join(block.lines)]
    try:
        done = subprocess.run(command, cwd=folder, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=SECONDS, text=True, errors="replace", check=False)
    except subprocess.TimeoutExpired:
        return None, []
    return done.returncode, done.stdout.splitlines()


def has_module(name, variables):
    """Of the python3 that a reader's shell, and the block, would start."""
    return subprocess.run(["python3", "-c", f"import {name}"], env=variables, stderr=subprocess.DEVNULL, check=False).returncode == 0


def check_shown(page, block, printed, options, problems):
    missing = first_missing(block.lines, printed)
    if missing is None:
        return
    if options.refresh:
        try:
            block.lines[:] = refreshed(block.lines, printed)
            missing = first_missing(block.lines, printed)
        except ValueError as error:
            problems.say(page, block.line, str(error))
            return
    if missing is not None:
        problems.say(page, block.line + 1 + missing, f"is not printed here (any more): {squeezed(block.lines[missing])}")


def check_marked(page, problems):
    for block in page.blocks:
        marked = block.runs() or re.match(r"not run: \S", block.remark)
        if block.has_commands() and not marked:
            problems.say(page, block.line, "commands without a remark; write <!-- run --> or <!-- not run: REASON --> before them")


def check_blocks(page, folder, options, problems):
    printed = None
    for block in page.blocks:
        if block.needs() and not has_module(block.needs(), options.variables):
            print(f"{page.path.relative_to(options.root)}:{block.line + 1}: skipped, for Python has no {block.needs()} here")
        elif block.runs():
            status, printed = execute(block, folder, options.variables)
            if status != block.status():
                ended = "did not end" if status is None else f"ended with {status} instead of {block.status()}"
                problems.say(page, block.line, f"{ended}: {block.lines[0][:120]}\n    " + "\n    ".join(printed[-5:]))
        elif block.remark == "output" and printed is None:
            problems.say(page, block.line, "an output without commands before it")
        elif block.remark == "output":
            check_shown(page, block, printed, options, problems)


def same_picture(one, other):
    """Coordinates may differ by a pixel, which is what rounding does; nothing else may."""
    number = re.compile(r"\d+(?:\.\d+)?")
    if number.sub("#", one) != number.sub("#", other):
        return False
    return all(abs(float(a) - float(b)) <= 1 for a, b in zip(number.findall(one), number.findall(other)))


def check_pictures(page, folder, options, problems):
    for number, line in page.text:
        for target in LINK.findall(line):
            made, kept = folder / Path(target).name, page.path.parent / target
            if made.suffix != ".svg" or not made.exists():
                continue
            if options.refresh:
                kept.parent.mkdir(exist_ok=True)
                shutil.copyfile(made, kept)
            elif not kept.exists() or not same_picture(made.read_text(encoding="utf-8"), kept.read_text(encoding="utf-8")):
                problems.say(page, number, f"{target} is not what the commands above make now")


def replaced(page, number, quantity, text, near):
    """Whether a line of the page now has the number of `text` that is nearest to one which is not printed any more."""
    now = nearest(quantity, text, near)
    if now is None:
        return False
    page.lines[number] = page.lines[number].replace(quantity, now, 1)
    return True


def check_tables(page, folder, options, problems):
    count = 0
    for number, command, cells in checked_rows(page):
        _, printed = execute(Block(number, "run", "", [command]), folder, options.variables)
        count += 1
        text = " ".join(squeezed(line) for line in printed)
        for quantity in (q for cell in cells for q in quantities(cell)):
            if not stands_in(quantity, text) and not (options.refresh and replaced(page, number, quantity, text, NEAR_IN_TABLES)):
                problems.say(page, number, f"{quantity} is not printed (any more) by {command}")
    return count


def stands_in(quantity, text):
    return re.search(r"(?<![\d.])" + re.escape(quantity), text) is not None


def check_numbers(page, options, problems):
    shown = " ".join(squeezed(line) for b in page.blocks for line in b.lines)
    by_hand = False
    for number, line in page.text:
        if not line.strip():
            by_hand = False
        elif line.strip() == "<!-- by hand -->":
            by_hand = True
        for quantity in [] if by_hand else quantities(line):
            if not stands_in(quantity, shown) and not (options.refresh and replaced(page, number, quantity, shown, NEAR_IN_SENTENCES)):
                problems.say(page, number, f"{quantity} stands in no output on this page; <!-- by hand --> excuses a paragraph")


def write_back(page):
    lines = list(page.lines)
    for block in reversed(page.blocks):
        if block.remark == "output":
            lines[block.line + 1: block.line + 1 + len(block.lines)] = block.lines
    page.path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def check_page(path, options, problems):
    page = read_page(path)
    check_marked(page, problems)
    count = sum(block.runs() for block in page.blocks)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for there in ("docs", "tests"):
            (folder / there).symlink_to(options.root / there)
        check_blocks(page, folder, options, problems)
        check_pictures(page, folder, options, problems)
        count += check_tables(page, folder, options, problems)
    if path.parent.name == "tutorials":
        check_numbers(page, options, problems)
    if options.refresh:
        write_back(page)
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--refresh", action="store_true")
    parser.add_argument("pages", nargs="*", type=Path)
    options = parser.parse_intermixed_args()
    options.root, program = options.root.resolve(), options.program.resolve()
    if program.name != "rehearse" or not program.exists():
        parser.error(f"--program {program}: must be a program called rehearse (scripts/build makes build/release/rehearse)")
    options.variables = environment(options.root, program)
    problems = Problems(options.root)
    pages = [p.resolve() for p in options.pages] or all_pages(options.root)
    count = sum(check_page(p, options, problems) for p in pages)
    print(f"{len(pages)} pages, {count} examples run, {problems.count} problems")
    return 1 if problems.count else 0


if __name__ == "__main__":
    sys.exit(main())
