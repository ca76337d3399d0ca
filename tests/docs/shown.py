"""What a page shows of a command's output, against what the command prints."""
import re
from difflib import SequenceMatcher

LEFT_OUT = "…"


def squeezed(line):
    """Columns are as wide as their widest cell, also where that one is left out: runs of blanks are one."""
    return " ".join(line.split())


def fits(shown, printed):
    parts = [re.escape(squeezed(part)) for part in shown.split(LEFT_OUT)]
    return re.fullmatch(r".*".join(parts).replace(r".*\ ", ".*"), squeezed(printed)) is not None


def first_missing(shown, printed):
    """Index of the first shown line that does not stand in the output where it should; None: all do. Lines follow each other in the
    output but where a line of … stands between them; the first may be anywhere."""
    furthest = 0

    def matches(i, j, anywhere):
        nonlocal furthest
        furthest = max(furthest, i)
        if i == len(shown):
            return True
        if shown[i].strip() == LEFT_OUT:
            return matches(i + 1, j, True)
        places = range(j, len(printed)) if anywhere else range(j, min(j + 1, len(printed)))
        return any(fits(shown[i], printed[k]) and matches(i + 1, k + 1, False) for k in places)

    return None if matches(0, 0, True) else furthest


def masked(line):
    return re.sub(r"\d[\d.,]*(?:e[+-]?\d+)?", "#", squeezed(line))


def likeness(shown, printed):
    if LEFT_OUT in shown:
        printed = printed[: len(shown)]
    alike = SequenceMatcher(None, masked(shown), masked(printed)).ratio()
    return alike + 0.01 * SequenceMatcher(None, squeezed(shown), squeezed(printed)).ratio()


def shortened(shown, printed):
    """The printed line, ended where the shown one was; … in the middle of a line has to be put there by hand."""
    if not shown.rstrip().endswith(LEFT_OUT):
        return printed.rstrip()
    words = len(shown.rstrip()[: -len(LEFT_OUT)].split())
    found = re.match(r"\s*(?:\S+\s+){%d}" % words, printed + " ")
    return (found.group(0).rstrip() + " " + LEFT_OUT) if found else printed.rstrip()


def refreshed(shown, printed):
    """The shown lines with what is printed now: of every line the one most like it, numbers aside, below the one before."""
    result, place = [], 0
    for line in shown:
        if line.strip() == LEFT_OUT:
            result.append(line)
            continue
        candidates = [(likeness(line, printed[k]), -k) for k in range(place, len(printed))]
        best, negative = max(candidates, default=(0, 0))
        if best < 0.6:
            raise ValueError(f"nothing that is printed now is like: {line}")
        place = 1 - negative
        result.append(line if fits(line, printed[-negative]) else shortened(line, printed[-negative]))
    return result


QUANTITY = re.compile(r"(?<![\w.,×=-])\$?\d[\d,]*(?:\.\d+)?(?: (?:ns|us|µs|ms|s|min|hours|days|MB|GB|TB|%|MWh|kWh|kg|tokens/s|GB/s|MB/s))?(?![\w.,]*\w)")
UNIT = re.compile(r"\d (?:[a-zA-Zµ%]|\$)|\$\d")


def quantities(text):
    """Numbers with a unit in a sentence."""
    return [q for q in QUANTITY.findall(re.sub(r"`[^`]*`", "", text)) if UNIT.search(q)]


def size_and_unit(quantity):
    """("1,024.5", "MB") of "1,024.5 MB"; a price's unit is "$"."""
    number, _, unit = quantity.lstrip("$").partition(" ")
    return float(number.replace(",", "")), unit or "$"


def nearest(quantity, text, within):
    """The quantity in `text` of the same unit that differs least from `quantity`, by a factor of at most `within`; None: there is none."""
    size, unit = size_and_unit(quantity)
    there = {q: size_and_unit(q) for q in quantities(text)}
    ratios = [(max(other / size, size / other), q) for q, (other, its) in there.items() if its == unit and other > 0 and size > 0]
    best = min(ratios, default=None)
    return best[1] if best and best[0] <= within else None
