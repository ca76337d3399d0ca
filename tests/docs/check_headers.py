#!/usr/bin/env python3
"""check_headers.py ROOT: doxygen makes pages of all headers without a warning. Ends with 77 (skipped) where there is no doxygen."""
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def main():
    root = Path(sys.argv[1])
    if shutil.which("doxygen") is None:
        print("skipped: there is no doxygen (Debian: apt-get install doxygen)")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        warnings = Path(folder) / "warnings.txt"
        settings = (root / "docs/Doxyfile").read_text(encoding="utf-8") + f"OUTPUT_DIRECTORY = {folder}\nWARN_LOGFILE = {warnings}\n"
        ended = subprocess.run(["doxygen", "-"], input=settings, text=True, cwd=root, capture_output=True, check=False)
        said = sorted(set(warnings.read_text(encoding="utf-8").splitlines())) if warnings.exists() else []
        pages = len(list(Path(folder).glob("*_8hpp.html")))
        headers = sum(1 for line in (root / "docs/Doxyfile").read_text(encoding="utf-8").splitlines() if line.startswith("INPUT = ")
                      for room in line.split()[2:] for _ in (root / room).rglob("*.hpp"))
    print("\n".join(said))
    if pages != headers:
        print(f"{pages} pages of {headers} headers: {ended.stderr.strip()}")
    return 1 if said or pages != headers else 0


if __name__ == "__main__":
    sys.exit(main())
