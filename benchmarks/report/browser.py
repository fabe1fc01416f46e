"""A page in Chromium: how soon it is open, and how smoothly it scrolls."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import sync_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_VIEWPORT = {"width": 1280, "height": 800}
_TIMEOUT = 120_000

# Runs before the page's own scripts.
_WATCH = """
window.tasks = [];
const keep = list => tasks.push(...list.getEntries());
new PerformanceObserver(keep).observe({type: "longtask", buffered: true});
window.opened = new Promise(done => addEventListener("load", () =>
  requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())))));
"""

# Waits for the page, then scrolls it: a quarter of a screen a frame, as somebody who turns the wheel fast. The observer
# hears of a task after it has ended, hence the pauses.
_VISIT = """
async () => {
  const pause = () => new Promise(done => setTimeout(done, 1000));
  const nextFrame = () => new Promise(requestAnimationFrame);
  const root = document.documentElement;
  const atEnd = () => scrollY + innerHeight >= root.scrollHeight - 1;
  const frame = await opened;
  await pause();
  const load = performance.getEntriesByType("navigation")[0].loadEventStart;
  const free = Math.max(frame, ...tasks.map(task => task.startTime + task.duration));
  tasks.length = 0;
  let longest = 0, frames = 0, before = await nextFrame();
  for (; !atEnd() && frames < 50000; frames++) {
    scrollBy({top: innerHeight / 4, behavior: "instant"});
    const now = await nextFrame();
    longest = Math.max(longest, now - before);
    before = now;
  }
  await pause();
  const busy = tasks.reduce((sum, task) => sum + task.duration, 0);
  const all = [...document.images], drawn = all.filter(image => image.complete && image.naturalWidth).length;
  return {load, frame, free, longest, busy, frames, height: root.scrollHeight, drawn, images: all.length};
}
"""


@dataclass(frozen=True)
class Visit:
    """What came of opening a page and scrolling it from its top to its end.

    Attributes:
        load: milliseconds from the start of navigation to the `load` event.
        frame: to the second frame after it, by when the first has been drawn.
        free: to the end of the last task of more than 50 ms, of those that end within a second of that frame.
        longest: milliseconds of the longest frame while scrolling.
        busy: milliseconds of all tasks of more than 50 ms while scrolling.
        frames: how many there were.
        height: of the page, in pixels.
        drawn: images that are there at the end, of so many `images`.
    """

    load: float
    frame: float
    free: float
    longest: float
    busy: float
    frames: int
    height: int
    drawn: int
    images: int


def executable() -> str:
    """Where Chromium is: what BANANA100_CHROMIUM names, or the first in PATH.

    Raises:
        SystemExit: nowhere.
    """
    asked = os.environ.get("BANANA100_CHROMIUM")
    found = next(filter(None, map(shutil.which, [asked] if asked else _NAMES)), None)
    if not found:
        raise SystemExit(f"{asked or _NAMES[0]} is not in PATH; install it (Debian: apt install chromium).")
    return found


def version() -> str:
    """What Chromium calls itself."""
    return subprocess.check_output([executable(), "--version"], text=True, stderr=subprocess.DEVNULL).strip()


def visit(file: Path) -> Visit:
    """Open a page in a browser that has just been started, with a new profile and without network, and scroll it.

    Raises:
        RuntimeError: the page asks for something that does not lie in it.
    """
    with sync_playwright() as playwright, playwright.chromium.launch(executable_path=executable()) as browser:
        context = browser.new_context(viewport=_VIEWPORT, offline=True)
        context.add_init_script(_WATCH)
        page = context.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(file.resolve().as_uri(), timeout=_TIMEOUT)
        found = Visit(**page.evaluate(_VISIT))
    if strange := [url for url in asked[1:] if not url.startswith(("data:", "blob:"))]:
        raise RuntimeError(f"{file} asks for {strange[0][:200]}")
    return found
