"""A headless Chromium before live views of a console: what they cost it, and how soon it answers.

Somebody types into a page's field, or clicks beside it where there is none, twice a second. Told
are the time from the key or click to the frame that shows it, tasks of more than 50 ms, nodes of
the document, and the heap when rubbish was collected, at the beginning and at the end.
"""

import shutil
import statistics
import tempfile
import time

from playwright.sync_api import sync_playwright

WATCH = """
globalThis.toPaint = []; globalThis.longTasks = [];
new PerformanceObserver(list => longTasks.push(...list.getEntries().map(each => each.duration)))
  .observe({ type: "longtask", buffered: true });
const seen = event => requestAnimationFrame(() => {
  const channel = new MessageChannel();
  channel.port1.onmessage = () => toPaint.push(performance.now() - event.timeStamp);
  channel.port2.postMessage(0);
});
for (const type of ["keydown", "pointerdown"]) addEventListener(type, seen, true);
"""
PAINT_MS_MAX, TASK_MS_MAX = 200, 200
"""An interaction to the next paint within 200 ms is good for people (web.dev's INP)."""
NODES_MAX, GROWTH_MAX = 20_000, 1.5
WARM_SECONDS = 10


def look(address, token, paths, seconds):
    """Look at each page so long, print what it was like, and return what was beyond bounds."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    faults = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        context = driver.chromium.launch_persistent_context(
            folder, executable_path=program, args=flags, viewport={"width": 1280, "height": 800}
        )
        page = context.pages[0]
        page.goto(f"{address}/login")
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Log in").click()
        page.add_init_script(WATCH)
        session = context.new_cdp_session(page)
        session.send("Performance.enable")
        for path in paths:
            page.goto(address + path)
            faults += _look(page, session, path, seconds)
        context.close()
    return faults


def _look(page, session, path, seconds):
    _act(page, WARM_SECONDS)
    began = _figures(page, session)
    page.evaluate("toPaint.length = longTasks.length = 0")
    _act(page, seconds)
    paints, tasks = page.evaluate("[toPaint, longTasks]")
    ended = _figures(page, session)
    print(
        f"  {path}, {seconds:.0f} s: to the next frame median {statistics.median(paints):.0f} ms, "
        f"most {max(paints):.0f} ms ({len(paints)} keys and clicks); tasks above 50 ms: "
        f"{len(tasks)}, longest {max(tasks, default=0):.0f} ms; elements {began['elements']:,}, "
        f"then {ended['elements']:,}; nodes {began['Nodes']:,}, then {ended['Nodes']:,}; heap "
        f"{began['JSHeapUsedSize'] / 2**20:.1f} MiB, then {ended['JSHeapUsedSize'] / 2**20:.1f}"
    )
    beyond = {
        f"{max(paints):.0f} ms to the next frame": max(paints) > PAINT_MS_MAX,
        f"a task of {max(tasks, default=0):.0f} ms": max(tasks, default=0) > TASK_MS_MAX,
        f"{ended['Nodes']:,} nodes": ended["Nodes"] > NODES_MAX,
        "a heap that grows": ended["JSHeapUsedSize"] > GROWTH_MAX * began["JSHeapUsedSize"],
    }
    return [f"{path}: {each}" for each, is_beyond in beyond.items() if is_beyond]


def _act(page, seconds):
    """Write and take back a letter where the page has a field, else click beside everything."""
    fields = page.get_by_role("textbox")
    if fields.count():
        fields.first.focus()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if fields.count():
            page.keyboard.press("x")
            page.wait_for_timeout(500)
            page.keyboard.press("Backspace")
        else:
            page.mouse.click(2, 400)
        page.wait_for_timeout(500)


def _figures(page, session):
    session.send("HeapProfiler.collectGarbage")
    found = {
        each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]
    }
    found["elements"] = page.evaluate("document.getElementsByTagName('*').length")
    return {name: int(value) for name, value in found.items()}
