#!/usr/bin/env python3
"""report_page REHEARSE: opens report pages in headless Chromium, and zooms, moves, hovers and types as a reader does.

A copy of each page gets a script that sends the events and writes what came of them into the page; Chromium prints the page. Ends with 77
(skipped) where there is no Chromium."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

PLAN = "pp=4,dp=2,micro_batch=4"
SCHEDULES = ("gpipe", "1f1b")
PROBE = """<script>
const frames = async n => { for (let i = 0; i < n; ++i) await new Promise(r => requestAnimationFrame(r)); };
(async () => {
  const found = {errors: []}, canvas = document.querySelector('.timeline canvas');
  const view = () => document.body.dataset.view.split(' ');
  const wheel = deltaY => canvas.dispatchEvent(new WheelEvent('wheel', {deltaY, clientX: canvas.getBoundingClientRect().left + canvas.clientWidth * 0.6, clientY: 300, bubbles: true, cancelable: true}));
  const key = name => canvas.dispatchEvent(new KeyboardEvent('keydown', {key: name, bubbles: true, cancelable: true}));
  const hint = document.getElementById('hint');
  const point = (x, y) => {
    const box = canvas.getBoundingClientRect();
    canvas.dispatchEvent(new PointerEvent('pointermove', {clientX: box.left + x, clientY: box.top + y, bubbles: true}));
    return hint.style.display === 'block' ? hint.textContent : '';
  };
  try {
    await frames(3);
    found.whole = view();
    found.width = document.documentElement.scrollWidth; found.window = window.innerWidth;
    found.heights = [...document.querySelectorAll('.timeline canvas')].map(c => c.clientHeight);
    const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    const colours = new Set();
    for (let i = 0; i < pixels.length; i += 4) if (pixels[i + 3]) colours.add(pixels[i] + ',' + pixels[i + 1] + ',' + pixels[i + 2]);
    found.colours = colours.size;
    const texts = new Set();
    for (let x = canvas.clientWidth * 0.02; x < canvas.clientWidth; ++x) texts.add(point(x, 30)).add(point(x, 60));
    found.hints = [...texts].filter(Boolean);
    const tall = canvas.clientHeight;
    wheel(-400); await frames(3); found.zoomed = view();
    key('ArrowRight'); await frames(3); found.moved = view();
    key('0'); await frames(3); found.back = view();
    const clock = document.getElementById('clock');
    const markings = () => [...document.querySelectorAll('.tokens canvas')].map(c => JSON.parse(c.dataset.marking));
    const at = tick => { clock.value = tick; clock.dispatchEvent(new Event('input')); return markings(); };
    found.first = markings(); found.last = at(1000);
    found.kept = []; found.tokens = new Set();
    for (let tick = 0; tick <= 1000; tick += 2) {
      at(tick).forEach((net, n) => {
        found.kept[n] = net.places.map((p, r) => Math.max(p.kept.length, found.kept[n] ? found.kept[n][r] : 0));
        const moving = net.places.reduce((sum, p) => sum + p.waitsForward.length + p.inForward.length + p.waitsBackward.length + p.inBackward.length, 0);
        found.tokens.add(moving + net.done);
        if (net.places.some(p => p.inForward.length + p.inBackward.length > 1)) found.errors.push('two passes at once at ' + tick);
      });
    }
    found.tokens = [...found.tokens];
    at(0); const play = document.getElementById('play');
    play.click(); await frames(20); found.playing = Number(clock.value); play.click(); found.button_says = play.textContent;
    key('m'); await frames(3); found.folded = view(); found.lower = canvas.clientHeight < tall;
    document.querySelector('button[data-does=in]').click(); await frames(3); found.button = view();
  } catch (error) { found.errors.push(String(error)); }
  const result = document.createElement('pre');
  result.id = 'result'; result.textContent = JSON.stringify(found);
  document.body.append(result);
})();
</script>"""

# A page that is printed and not shown draws no frames: the clock takes their place.
FRAMES = "<script>window.requestAnimationFrame = draw => setTimeout(() => draw(performance.now()), 10);</script>"

failures = 0


def check(what, right, seen=""):
    global failures
    if not right:
        failures += 1
        print(f"FAILED: {what}: {seen}")


def opened(page, width, dark=False):
    """What the probe found in the page in a window of that width."""
    text = open(page).read().replace("</head>", FRAMES + "</head>").replace("</body>", PROBE + "</body>")
    copy = page + ".probe.html"
    open(copy, "w").write(text)
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},1200", "--virtual-time-budget=5000", "--dump-dom",
               *(["--blink-settings=preferredColorScheme=0"] if dark else []), "file://" + copy]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60)
    result = re.search(r'<pre id="result">(.*?)</pre>', said.stdout, re.DOTALL)
    if not result:
        raise SystemExit(f"the page did not run: {said.stderr[-500:]}")
    return json.loads(result[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))


def rehearse(*words):
    return subprocess.run([program, *words], check=True, capture_output=True, text=True).stdout


def check_timeline(page, width, dark):
    found = opened(page, width, dark)
    where = f"{width} px" + (", dark" if dark else "")
    check(f"{where}: no errors", not found["errors"], found["errors"])
    begin, end = map(float, found["whole"][:2])
    check(f"{where}: the whole step at first", begin == 0 and end > 1e7, found["whole"])
    check(f"{where}: nothing is cut off", found["width"] <= found["window"], (found["width"], found["window"]))
    check(f"{where}: a timeline for each trace", len(found["heights"]) == len(SCHEDULES) and min(found["heights"]) > 100, found["heights"])
    check(f"{where}: passes, messages, bubbles and text are drawn", found["colours"] > 8, found["colours"])
    hints = "\n\n".join(found["hints"])
    for word in ("forward, micro-batch", "backward, micro-batch", "FLOP/s", "nothing is computed for", "rank", "of memory in use", "the most in this step"):
        check(f"{where}: hovering tells of {word}", word in hints, found["hints"][:3])
    zoomed, moved = [list(map(float, found[n][:2])) for n in ("zoomed", "moved")]
    check(f"{where}: the wheel zooms", 0 < zoomed[1] - zoomed[0] < 0.6 * end, zoomed)
    check(f"{where}: an arrow key moves", abs(moved[1] - moved[0] - (zoomed[1] - zoomed[0])) < 2 and moved[0] > zoomed[0], (zoomed, moved))
    check(f"{where}: 0 shows the whole step again", found["back"] == found["whole"], found["back"])
    # Eight micro-batches through four stages: GPipe keeps all of them on every stage, 1F1B four on the first and one on the last.
    check(f"{where}: at first all tokens wait", all(sum(len(p["waitsForward"]) for p in net["places"]) >= 7 for net in found["first"]), found["first"])
    check(f"{where}: at the end all are through", all(net["done"] == 8 and not any(p["kept"] for p in net["places"]) for net in found["last"]), found["last"])
    check(f"{where}: no token is lost", found["tokens"] == [8], found["tokens"])
    check(f"{where}: tokens kept by GPipe and 1F1B", found["kept"] == [[8, 8, 8, 8], [4, 3, 2, 1]], found["kept"])
    check(f"{where}: tokens play", 0 < found["playing"] < 1000 and found["button_says"] == "play", (found["playing"], found["button_says"]))
    check(f"{where}: m folds messages away", found["folded"][2] == "false" and found["lower"], found["folded"])
    check(f"{where}: a button zooms", float(found["button"][1]) - float(found["button"][0]) < 0.6 * end, found["button"])


def main():
    with tempfile.TemporaryDirectory() as folder:
        traces = []
        for schedule in SCHEDULES:
            traces.append(f"{folder}/{schedule}.json")
            rehearse("simulate", "zoo:gpt2", "--platform", "dgx-a100", "--nodes", "1", "--batch", "64", "--dtype", "bf16", "--framework", "rehearse",
                     "--plan", f"{PLAN},schedule={schedule}", "--trace", traces[-1])
        page = f"{folder}/page.html"
        rehearse("report", *traces, "-o", page)
        check("the page is small", os.path.getsize(page) < 1_000_000, os.path.getsize(page))
        for width, dark in ((1280, False), (500, True), (3840, False)):
            check_timeline(page, width, dark)
    print(f"{failures} failed" if failures else "timelines are drawn, zoomed, moved, hovered and folded at 500, 1280 and 3840 px")
    return 1 if failures else 0


program = os.path.abspath(sys.argv[1])
browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
if browser is None:
    print("skipped: no Chromium (Debian's package chromium) is installed")
    sys.exit(77)
sys.exit(main())
