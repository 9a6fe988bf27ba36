/** The list of scenes, what is being worked on, and where a new one begins. */

import { get, post, showPicture } from "./api.js";
import { ago, counted, decibel, duration, during, h } from "./dom.js";

const REFRESH_MS = 4000;

/** All scenes, running jobs, and captures that have no scene yet. */
export async function homeView(place, signal) {
  document.title = "Scenes – recon4d";
  const working = h("section", { hidden: true });
  const scenes = h("section", {});
  const captures = h("section", { hidden: true });
  place.append(h("h1", {}, "Scenes"), working, scenes, captures);
  await fillScenes(scenes, signal);
  await fillCaptures(captures);
  await follow(working, scenes, signal);
}

async function fillScenes(section, signal, cursor = null) {
  const page = await get(`/v1/scenes?limit=24${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`);
  if (!page.items.length && !cursor) {
    section.replaceChildren(welcome());
    return;
  }
  const grid = h("ul", { class: "grid" }, page.items.map((scene) => h("li", {}, sceneCard(scene))));
  if (cursor) section.append(grid);
  else section.replaceChildren(grid);
  if (page.next) {
    const more = h("button", { type: "button", onclick: () => (more.remove(), fillScenes(section, signal, page.next)) }, "Show more");
    section.append(more);
  }
}

function welcome() {
  return h(
    "div",
    { class: "welcome" },
    h("p", { class: "lead" }, "Several fixed cameras film the same bench; their videos become a scene that can be seen from anywhere near them, at any instant."),
    h(
      "ol",
      { class: "steps" },
      h("li", {}, h("b", {}, "Send the videos"), " – one a camera, and how the cameras stand."),
      h("li", {}, h("b", {}, "Check them"), " – what is wrong is said before any training."),
      h("li", {}, h("b", {}, "Reconstruct"), " – minutes to look at, and to use as an environment."),
    ),
    h("p", {}, h("a", { class: "button primary", href: "#/new" }, "New scene")),
  );
}

function sceneCard(scene) {
  const image = h("img", { alt: "", width: 320, height: 240, loading: "lazy" });
  if (scene.thumbnail) showPicture(image, scene.thumbnail);
  const score = scene.scores?.heldout_cameras?.psnr ?? scene.scores?.heldout_times?.psnr;
  return h(
    "a",
    { class: "card", href: `/scene/${scene.id}` },
    h("span", { class: "picture" }, image),
    h("b", {}, scene.name),
    h(
      "span",
      { class: "soft" },
      [counted(scene.cameras.length, "camera"), `${scene.duration_s.toFixed(1)} s`, score && `${decibel(score)} dB`]
        .filter(Boolean)
        .join(" · "),
    ),
    h("span", { class: "soft" }, ago(scene.created_at)),
  );
}

async function fillCaptures(section) {
  const { items } = await get("/v1/captures?limit=8");
  if (!items.length) return;
  section.hidden = false;
  section.append(
    h("h2", {}, "Captures"),
    h(
      "ul",
      { class: "rows" },
      items.map((capture) => {
        const videos = capture.files.filter(({ kind }) => kind === "video").length;
        return h(
          "li",
          {},
          h("a", { href: `#/capture/${capture.id}` }, capture.name),
          h("span", { class: "soft" }, `${counted(videos, "video")}, ${capture.ready ? "complete" : "not complete yet"}`),
          h("span", { class: "soft" }, ago(capture.created_at)),
        );
      }),
    ),
  );
}

/** Shows what is being worked on for as long as the page is open; a scene that is done joins the others. */
async function follow(working, scenes, signal) {
  let before = new Set();
  while (!signal.aborted) {
    const pages = await Promise.all(["running", "queued"].map((state) => get(`/v1/reconstructions?state=${state}`)));
    const jobs = pages.flatMap(({ items }) => items);
    working.hidden = !jobs.length;
    working.replaceChildren(h("h2", {}, "Being reconstructed"), h("ul", { class: "rows" }, jobs.map(jobRow)));
    const now = new Set(jobs.map(({ id }) => id));
    if ([...before].some((id) => !now.has(id))) await fillScenes(scenes, signal);
    before = now;
    await new Promise((resolve) => setTimeout(resolve, REFRESH_MS));
  }
}

function jobRow(job) {
  const said = job.state === "queued" ? "waiting for its turn" : job.eta_s ? `${duration(job.eta_s)} left in this stage` : job.stage;
  return h(
    "li",
    {},
    h("a", { href: `#/job/${job.id}` }, job.name || "Reconstruction"),
    h("progress", { max: 1, value: job.fraction, "aria-label": `Progress of ${job.name}` }),
    h("span", { class: "soft" }, said),
  );
}

/** Where a new capture gets its name; its own page does the rest. */
export async function newView(place) {
  document.title = "New scene – recon4d";
  const name = h("input", { id: "name", required: true, maxLength: 200, value: `Bench, ${new Date().toLocaleDateString("en", { day: "numeric", month: "long" })}` });
  const button = h("button", { class: "primary" }, "Continue");
  const form = h(
    "form",
    {
      class: "narrow",
      onsubmit(event) {
        event.preventDefault();
        during(button, async () => {
          const capture = await post("/v1/captures", { name: name.value.trim() });
          location.hash = `#/capture/${capture.id}`;
        });
      },
    },
    h("label", { for: "name" }, "What do you call it?"),
    name,
    button,
  );
  place.append(
    h("h1", {}, "New scene"),
    h("p", { class: "lead" }, "You need a video from each of at least two fixed cameras, and a capture.json that says how they stand."),
    form,
  );
  name.select();
}
