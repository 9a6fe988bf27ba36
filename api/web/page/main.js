/** The service's page: which part of it is shown is said by the address behind "#". */

import { captureView } from "./capture.js";
import { fault, h } from "./dom.js";
import { frame } from "./frame.js";
import { homeView, newView } from "./home.js";
import { jobView } from "./job.js";

const VIEWS = [
  [/^#?\/?$/, homeView],
  [/^#\/new$/, newView],
  [/^#\/capture\/(cap_\w+)$/, captureView],
  [/^#\/job\/(job_\w+)$/, jobView],
];

let leaving = new AbortController();

async function show() {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const content = document.getElementById("content");
  const place = h("div", { class: "view" });
  content.replaceChildren(place);
  scrollTo(0, 0);
  for (const [pattern, view] of VIEWS) {
    const match = pattern.exec(location.hash);
    if (!match) continue;
    try {
      await view(place, signal, ...match.slice(1));
    } catch (error) {
      if (!signal.aborted) place.append(fault(error));
    }
    return;
  }
  place.append(h("h1", {}, "There is nothing here"), h("p", {}, h("a", { href: "#/" }, "All scenes")));
}

frame();
addEventListener("hashchange", show);
show();
