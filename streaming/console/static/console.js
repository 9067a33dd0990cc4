// Replaces the live part of a page while it can be seen and nobody has the focus in it.
"use strict";
const live = document.getElementById("live");
if (live) {
  const every = 1000 * Number(live.dataset.every);
  const refresh = async () => {
    try {
      const busy = live.contains(document.activeElement) || document.hidden || !getSelection().isCollapsed;
      if (!busy) {
        const answer = await fetch(location.href, { headers: { "x-fragment": "1" }, cache: "no-store" });
        if (answer.ok && !answer.redirected) live.innerHTML = await answer.text();
        live.classList.toggle("stale", !answer.ok);
      }
    } catch {
      live.classList.add("stale");
    }
    setTimeout(refresh, every);
  };
  setTimeout(refresh, every);
}
