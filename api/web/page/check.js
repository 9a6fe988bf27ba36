/** The check of a capture: the engine's findings, and a picture from each camera. */

import { events, get, post, showPicture } from "./api.js";
import { counted, during, fault, h } from "./dom.js";

export class Checking {
  constructor(place, signal, capture) {
    Object.assign(this, { place, signal, capture });
    this.button = h("button", { type: "button", onclick: () => during(this.button, () => this.#start()) }, "Check the videos");
    this.result = h("div", { "aria-live": "polite" });
    place.append(
      h("h2", {}, "Check"),
      h("p", { class: "soft" }, "Decodes every video to its end and says what is wrong, before any training."),
      h("div", {}, this.button),
      this.result,
    );
  }

  allow(ready) {
    this.button.disabled = !ready || this.running;
    this.place.hidden = !ready && !this.result.hasChildNodes();
  }

  /** Shows the latest check of this capture, if there was one. */
  async begin() {
    const { items } = await get("/v1/jobs?kind=check&limit=100");
    const latest = items.find(({ subject }) => subject === this.capture);
    if (latest) this.#follow(latest);
  }

  async #start() {
    await this.#follow(await post(`/v1/captures/${this.capture}/check`));
  }

  async #follow(job) {
    this.running = true;
    this.button.disabled = true;
    if (!["succeeded", "failed", "cancelled"].includes(job.state)) {
      this.result.replaceChildren(h("p", {}, h("progress", { "aria-label": "Checking" }), " Looking at every frame …"));
      for await (const _ of events(job.links.events, this.signal));
      if (this.signal.aborted) return;
      job = await get(job.links.self);
    }
    this.running = false;
    this.button.disabled = false;
    this.#show(job);
  }

  #show(job) {
    if (job.state !== "succeeded") {
      const problem = job.error ?? {};
      this.result.replaceChildren(fault({ message: problem.detail ?? `The check was ${job.state}.`, hint: problem.hint }));
      return;
    }
    const { findings, errors, warnings, notes, clocks, poses, contact } = job.result;
    const others = [warnings && counted(warnings, "warning"), notes && counted(notes, "note")].filter(Boolean).join(", ");
    const verdict = errors
      ? h("p", { class: "bad" }, `${counted(errors, "error")}: this cannot be reconstructed yet.`)
      : h("p", { class: "good" }, others ? `It can be reconstructed; ${others}.` : "No findings: all is well.");
    const list = h("ul", { class: "findings" }, findings.map(finding));
    this.result.replaceChildren(verdict, list);
    if (clocks) this.result.append(h("p", { class: "soft" }, `Clocks: ${clocks}.`));
    if (poses) this.result.append(h("p", { class: "soft" }, `Poses: ${poses}.`));
    if (!contact) return;
    const sheet = h("img", {
      class: "sheet",
      alt: "Each camera at three times, with the bench's grid, the world's axes and the other cameras drawn in",
    });
    const whole = h("a", { target: "_blank", title: "Show it in full size" }, sheet);
    showPicture(sheet, `/v1/jobs/${job.id}/files/${contact}`).then((shown) => {
      if (!shown) return;
      whole.href = sheet.src;
      this.result.append(whole);
    });
  }
}

const SEVERITIES = { error: ["Error", "bad"], warning: ["Warning", "warn"], note: ["Note", "soft"] };

function finding({ severity, camera, file, message, advice }) {
  const where = [camera && `camera ${camera}`, file].filter(Boolean).join(", ");
  const [label, look] = SEVERITIES[severity];
  return h(
    "li",
    { class: look },
    h("b", {}, `${label}${where ? `, ${where}` : ""}: `),
    message,
    advice && h("span", { class: "soft" }, ` ${advice}`),
  );
}
