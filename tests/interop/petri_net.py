"""explain --pnml as a reader of XML finds it: the form of ISO/IEC 15909-2, and a game of tokens played here comes to its end.
Arguments: the program rehearse, and the project's folder."""

import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from pathlib import Path

NAMESPACE = "{http://www.pnml.org/version-2009/grammar/pnml}"
PLANS = ["dp=2,zero=1", "pp=2,micro_batch=2,schedule=gpipe", "tp=2,pp=2,micro_batch=1,schedule=zb-h1,recompute=full"]


def read(path):
    """Places with their tokens, and transitions with the places that they take from and give to."""
    root = xml.parse(path).getroot()
    assert root.tag == NAMESPACE + "pnml", root.tag
    net = root.find(NAMESPACE + "net")
    assert net.get("type") == "http://www.pnml.org/version-2009/grammar/ptnet"
    page = net.find(NAMESPACE + "page")
    marking = {}
    for place in page.iter(NAMESPACE + "place"):
        start = place.find(f"{NAMESPACE}initialMarking/{NAMESPACE}text")
        marking[place.get("id")] = 0 if start is None else int(start.text)
    names = {}
    for node in [*page.iter(NAMESPACE + "place"), *page.iter(NAMESPACE + "transition")]:
        names[node.get("id")] = node.find(f"{NAMESPACE}name/{NAMESPACE}text").text
    takes = {t.get("id"): [] for t in page.iter(NAMESPACE + "transition")}
    gives = {t: [] for t in takes}
    ids = set()
    for arc in page.iter(NAMESPACE + "arc"):
        ids.add(arc.get("id"))
        source, target = arc.get("source"), arc.get("target")
        assert (source in marking) != (target in marking), f"an arc from {source} to {target}"
        (takes[target] if source in marking else gives[source]).append(source if source in marking else target)
    assert len(ids) == sum(map(len, takes.values())) + sum(map(len, gives.values())), "two arcs have one name"
    assert not set(marking) & set(takes), "a place and a transition have one name"
    return marking, names, takes, gives


def play(marking, takes, gives):
    fired = dict.fromkeys(takes, 0)
    moved = True
    while moved:
        moved = False
        for t in takes:
            if fired[t] < 2 and all(marking[p] > 0 for p in takes[t]):
                fired[t] += 1
                moved = True
                for p in takes[t]:
                    marking[p] -= 1
                for p in gives[t]:
                    marking[p] += 1
    return fired


def main():
    rehearse = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        for plan in PLANS:
            path = Path(folder) / "step.pnml"
            model = "zoo:gpt?layers=2&hidden=64&heads=4&seq=32&vocab=96"
            subprocess.run([rehearse, "explain", plan, "--model", model, "--batch", "8", "--platform", "dgx-a100", "--framework",
                            "rehearse", "--pnml", path], check=True, capture_output=True)
            marking, names, takes, gives = read(path)
            fired = play(marking, takes, gives)
            assert set(fired.values()) == {1}, [names[t] for t, times in fired.items() if times != 1]
            left = [names[p] for p, tokens in marking.items() if tokens and not names[p].startswith("end of rank")]
            assert not left, left
            print(f"{plan}: {len(marking)} places, {len(takes)} transitions, each fired once")


main()
