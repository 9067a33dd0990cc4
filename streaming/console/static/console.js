"use strict";
// The newest of lanes are at their right.
for (const lanes of document.querySelectorAll("[aria-label=Lanes]")) lanes.scrollLeft = lanes.scrollWidth;

const live = document.getElementById("live");
// Replaces the live part of a page while it can be seen and nobody has the focus in it.
if (live) {
  const every = 1000 * Number(live.dataset.every);
  let shown = "";
  const isBusy = () => live.contains(document.activeElement) || document.hidden || !getSelection().isCollapsed;
  const refresh = async () => {
    try {
      if (!isBusy()) {
        const answer = await fetch(location.href, { headers: { "x-fragment": "1" }, cache: "no-store" });
        const text = await answer.text();
        if (answer.ok && !answer.redirected && text !== shown && !isBusy()) live.innerHTML = shown = text;
        live.classList.toggle("stale", !answer.ok);
      }
    } catch {
      live.classList.add("stale");
    }
    setTimeout(refresh, every);
  };
  setTimeout(refresh, every);
}
