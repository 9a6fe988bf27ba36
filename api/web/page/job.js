/** A reconstruction while it runs, and what became of it. */

import { events, get, post, request, showPicture } from "./api.js";
import { Chart } from "./chart.js";
import { ago, decibel, duration, during, fault, h, number } from "./dom.js";

const STAGES = {
  ingest: "Decode",
  static: "Still scene",
  seeds: "What moves",
  joint: "Motion",
  score: "Score",
  report: "Films and report",
};
const DOING = {
  ingest: "Decoding the videos",
  static: "Fitting the still scene",
  seeds: "Finding what moves",
  joint: "Fitting everything, with its motion",
  score: "Scoring what training never saw",
  report: "Making the films and the report",
  finishing: "Putting the scene in its place",
};
/** Stages in which, and after which, there is a picture of how the fit stands. */
const PICTURED = ["joint", "score", "report", "finishing"];
const ENDED = ["succeeded", "failed", "cancelled"];
const PICTURE_EVERY_MS = 4000;

export async function jobView(place, signal, id) {
  const page = new JobPage(place, signal, `/v1/reconstructions/${id}`);
  await page.follow();
}

class JobPage {
  constructor(place, signal, path) {
    Object.assign(this, { place, signal, path });
    this.title = h("h1", {});
    this.state = h("p", { class: "lead", "aria-live": "polite" });
    this.bar = h("progress", { max: 1, value: 0, class: "wide", "aria-label": "Progress of the whole job" });
    this.stages = h("ol", { class: "stages" }, Object.entries(STAGES).map(([stage, name]) => h("li", { "data-stage": stage }, name)));
    this.actions = h("div", { class: "row" });
    this.outcome = h("div", {});
    this.image = h("img", { class: "render", alt: "The latest render" });
    this.render = h("figure", { hidden: true }, h("figcaption", {}, "Latest render"), this.image);
    this.numbers = h("dl", { class: "tiles" });
    this.chartPlace = h("figure", { hidden: true }, h("figcaption", {}, "PSNR on training pictures, dB"));
    this.chart = new Chart(this.chartPlace);
    this.warnings = h("ul", { class: "findings" });
    place.append(
      this.title,
      this.state,
      this.bar,
      this.stages,
      this.outcome,
      this.actions,
      h("div", { class: "two" }, this.chartPlace, this.render),
      this.numbers,
      this.warnings,
      this.#log(),
    );
    this.shownAt = 0;
    this.latest = {};
  }

  async follow() {
    await this.#refresh();
    for await (const { data } of events(this.job.links.events, this.signal)) this.#take(data);
    if (this.signal.aborted) return;
    await this.#refresh();
  }

  async #refresh() {
    this.job = await get(this.path);
    if (this.signal.aborted) return;
    this.#update();
  }

  #update() {
    const { job } = this;
    this.title.textContent = job.name || "Reconstruction";
    document.title = `${job.name} – recon4d`;
    this.state.textContent = this.#sentence();
    this.bar.value = job.state === "succeeded" ? 1 : job.fraction;
    this.bar.hidden = ENDED.includes(job.state);
    this.#showActions();
    if (job.state === "failed") {
      const { detail, hint } = job.error ?? {};
      this.outcome.replaceChildren(fault({ message: detail ?? "It failed; the log says more.", hint }));
    }
    this.#showPicture(true);
  }

  #sentence() {
    const { state, started_at, finished_at, slot, eta_s, stage, cancelling } = this.job;
    if (cancelling) return "Stopping at the next step …";
    if (state === "queued") return "Waiting for its turn.";
    if (state === "running") {
      const left = eta_s ? `, about ${duration(eta_s)} left in this stage` : "";
      return `${DOING[stage] ?? "Beginning"}${left}. Runs on ${slot ?? "the service"}.`;
    }
    const took = started_at && finished_at ? ` after ${duration((Date.parse(finished_at) - Date.parse(started_at)) / 1000)}` : "";
    return { succeeded: "Done", failed: "Failed", cancelled: "Stopped" }[state] + `${took}, ${ago(finished_at)}.`;
  }

  #showActions() {
    const { job } = this;
    const button = (label, action) => {
      const made = h("button", { type: "button", onclick: () => during(made, action) }, label);
      return made;
    };
    const shown = [];
    if (job.result?.scene) shown.push(h("a", { class: "button primary", href: `/scene/${job.result.scene}` }, "Open the scene"));
    if (job.links.cancel) shown.push(button("Stop", () => post(job.links.cancel).then(() => this.#refresh())));
    if (job.links.restart && job.state !== "succeeded") {
      const again = async () => (location.hash = `#/job/${(await post(job.links.restart, {})).id}`);
      shown.push(button("Go on from where it stopped", again));
    }
    shown.push(h("a", { class: "button", href: `#/capture/${job.subject}` }, "The capture"));
    this.actions.replaceChildren(...shown);
  }

  /** One event of the job. */
  #take(data) {
    const { job } = this;
    if (data.event === "state") {
      Object.assign(job, { state: data.state });
      if (!ENDED.includes(data.state)) this.#refresh();
    } else {
      if (data.stage in DOING) job.stage = data.stage;
      if (job.state === "queued") job.state = "running";
    }
    if (data.event === "progress") {
      Object.assign(this.latest, { [data.stage]: data });
      job.eta_s = data.eta_s;
      this.chart.add(data);
      this.chartPlace.hidden = this.chart.empty;
    }
    if (data.event === "warned") this.warnings.append(h("li", { class: "warn" }, data.message));
    if (data.event === "finished") this.#mark(data.stage, "done");
    else if (data.event === "started" || data.event === "progress") this.#mark(data.stage, "now", data);
    this.drawn ??= requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    this.drawn = null;
    this.state.textContent = this.#sentence();
    const shares = [...this.stages.children].map((item) => Number(item.style.getPropertyValue("--share") || 0));
    if (this.job.state === "running") this.bar.value = Math.max(this.bar.value, weighted(shares));
    const { psnr, loss, splats, active } = this.latest.joint ?? this.latest.static ?? {};
    const facts = { "PSNR, dB": psnr && decibel(psnr), Loss: loss && loss.toFixed(4), Gaussians: splats && number(splats), "In the last view": active && number(active) };
    const shown = Object.entries(facts).filter(([, value]) => value);
    this.numbers.replaceChildren(...shown.map(([name, value]) => h("div", { class: "tile" }, h("dt", {}, name), h("dd", {}, value))));
    this.#showPicture();
  }

  #mark(stage, state, { step, total } = {}) {
    const item = this.stages.querySelector(`[data-stage="${CSS.escape(stage)}"]`);
    if (!item || (item.className === "done" && state === "now" && step === undefined)) return;
    item.className = state;
    item.style.setProperty("--share", state === "done" ? 1 : step && total ? step / total : 0);
    if (state === "now") item.setAttribute("aria-current", "step");
    else item.removeAttribute("aria-current");
  }

  async #showPicture(now = false) {
    const soon = !now && Date.now() - this.shownAt < PICTURE_EVERY_MS;
    if (!this.job.links.preview || !PICTURED.includes(this.job.stage) || soon) return;
    this.shownAt = Date.now();
    if (await showPicture(this.image, this.job.links.preview)) this.render.hidden = false;
  }

  #log() {
    const text = h("pre", {});
    let offset = 0;
    const more = async () => {
      while (details.open && !this.signal.aborted) {
        const response = await request(`${this.job.links.logs}?offset=${offset}`);
        const added = await response.text();
        offset = Number(response.headers.get("X-Next-Offset"));
        text.append(added);
        if (!added && ENDED.includes(this.job.state)) return;
        if (!added) await new Promise((resolve) => setTimeout(resolve, 2000));
      }
    };
    const details = h("details", { ontoggle: () => details.open && more() }, h("summary", {}, "Log"), text);
    return details;
  }
}

/** How much of the whole is done, by the time that stages usually take. */
function weighted(shares) {
  const weights = [0.04, 0.16, 0.05, 0.58, 0.07, 0.1];
  return shares.reduce((sum, share, k) => sum + share * weights[k], 0);
}
