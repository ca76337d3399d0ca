#!/usr/bin/env python3
"""test_site.py reference|build ROOT PROGRAM: the pages that the site is made of, and the site itself.

reference: needs Python alone. build: needs mkdocs-material where scripts/site installs it, and ends with 77 (skipped) where it is not."""
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path


def prepare(root, program, folder):
    subprocess.run([sys.executable, root / "docs/site/prepare.py", root, program, folder], check=True, stdout=subprocess.DEVNULL)


def first_cells(page):
    """What stands as code in the first cells of a page's tables."""
    return re.findall(r"^\| `([^`]+)` \|", page.read_text(encoding="utf-8"), re.M)


def differences(what, found, expected):
    for name in sorted(set(expected) - set(found)):
        yield f"{what}: {name} is missing"
    for name in sorted(set(found) - set(expected)):
        yield f"{what}: {name} is on the page alone"


def check_reference(root, program, folder):
    """The tables against what else knows the names: the program's own lists and the schema of plan files."""
    prepare(root, program, folder)
    pages = folder / "reference"
    schema = json.loads((root / "plan/schema/plan.schema.json").read_text(encoding="utf-8"))["properties"]
    keys = [key for section in ("mesh", "pipeline", "rules", "placement") for key in schema[section]["properties"]]
    schedules = [name for name in schema["pipeline"]["properties"]["schedule"]["enum"] if name != "auto"]
    says = subprocess.run([program, "--help"], check=True, capture_output=True, text=True).stdout
    commands = re.findall(r"^  ([a-z]+) ", says.split("\nOutput:")[0], re.M)
    helped = subprocess.run([program, "estimate", "--help"], check=True, capture_output=True, text=True).stdout
    options = re.findall(r"^  (?:-\w,)?(--[a-z-]+)", helped, re.M)
    shown = [re.search(r"--[a-z-]+", cell).group(0) for cell in first_cells(pages / "commands/estimate.md") if "--" in cell]
    refused = subprocess.run([program, "inspect", "zoo:resnet18", "--batch", "1", "--optimizer", "none-such"], capture_output=True, text=True, check=False).stderr
    optimizers = re.search(r"Known: (.*)", refused).group(1).strip().split(", ")
    yield from differences("plan keys", first_cells(pages / "plan-keys.md"), keys)
    yield from differences("schedules", first_cells(pages / "schedules.md"), schedules)
    yield from differences("commands", [p.stem for p in (pages / "commands").glob("*.md")], commands)
    yield from differences("options of estimate", shown, options)
    yield from differences("optimizers", first_cells(pages / "optimizers.md"), optimizers)
    nav = re.findall(r": ([\w/-]+\.md)$", (root / "mkdocs.yml").read_text(encoding="utf-8"), re.M)
    written = [str(path.relative_to(root / "docs")) for path in (root / "docs").rglob("*.md")]
    yield from (f"mkdocs.yml: {name} is no page" for name in nav if not (folder / name).exists())
    yield from (f"mkdocs.yml: docs/{name} has no line under nav" for name in written if name not in nav)


def check_build(root, program, folder):
    generator = root / "build/site-venv/bin/mkdocs"
    if not generator.exists():
        print("skipped: mkdocs-material is not installed; scripts/site installs it into build/site-venv")
        sys.exit(77)
    prepare(root, program, folder / "pages")
    settings = (root / "mkdocs.yml").read_text(encoding="utf-8")
    settings = re.sub(r"^docs_dir:.*$", f"docs_dir: {folder / 'pages'}", settings, flags=re.M)
    settings = re.sub(r"^site_dir:.*$", f"site_dir: {folder / 'site'}", settings, flags=re.M)
    (folder / "mkdocs.yml").write_text(settings, encoding="utf-8")
    done = subprocess.run([generator, "build", "--quiet", "--strict", "-f", folder / "mkdocs.yml"], capture_output=True, text=True, check=False)
    if done.returncode:
        yield "mkdocs: " + done.stdout + done.stderr
    elif not (folder / "site/tutorials/student.html").exists():
        yield "mkdocs: no page of the students' tutorial came out"


def main():
    check = {"reference": check_reference, "build": check_build}[sys.argv[1]]
    with tempfile.TemporaryDirectory() as folder:
        problems = list(check(Path(sys.argv[2]).resolve(), sys.argv[3], Path(folder)))
    print("\n".join(problems) or "as it should be")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
