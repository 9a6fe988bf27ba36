/** The form that begins a reconstruction. */

import { get, post } from "./api.js";
import { during, h } from "./dom.js";

const PRESETS = {
  fast: "A first look, in about two minutes for a small capture.",
  balanced: "What most scenes want: about five minutes.",
  quality: "More Gaussians, fitted for longer: about ten minutes.",
};

export class Launch {
  constructor(place, capture) {
    Object.assign(this, { place, capture });
    this.changed = new Map();
    this.ready = false;
    this.turn = 0;
  }

  /** Fills the form for a capture as it is now; of several calls the last one counts. */
  async begin(capture) {
    this.turn += 1;
    const { turn } = this;
    this.description ??= await get("/v1/options");
    const known = capture.calibrated ? (await get(`/v1/captures/${this.capture}/calibration`)).heldout : null;
    if (turn !== this.turn) return;
    const before = capture.cameras.filter((name) => known?.cameras?.includes(name));
    const name = h("input", { id: "scene-name", value: capture.name, maxLength: 200, required: true });
    const presets = h("div", { class: "choices", role: "radiogroup", "aria-label": "Preset" }, this.description.presets.map(presetChoice));
    this.button = h("button", { class: "primary" }, "Reconstruct");
    const form = h(
      "form",
      {
        onsubmit: (event) => {
          event.preventDefault();
          const preset = new FormData(form).get("preset");
          const chosen = [...form.querySelectorAll("[name=heldout]:checked")].map(({ value }) => value);
          const heldout = chosen.join() === before.join() ? {} : { heldout_cameras: chosen };
          during(this.button, () => this.#start({ preset, name: name.value.trim(), ...heldout }));
        },
      },
      presets,
      h("label", { for: "scene-name" }, "Name of the scene"),
      name,
      heldoutChoice(capture.cameras, before),
      this.#settings(presets),
      h("div", {}, this.button),
    );
    this.place.replaceChildren(h("h2", {}, "Reconstruct"), form);
    this.allow(this.ready);
  }

  allow(ready) {
    this.ready = ready;
    this.place.hidden = !ready;
    if (this.button) this.button.disabled = !ready;
  }

  async #start(wanted) {
    const options = Object.fromEntries(this.changed);
    const job = await post("/v1/reconstructions", { capture: this.capture, options, ...wanted });
    location.hash = `#/job/${job.id}`;
  }

  /** Every value of the configuration; only those that are changed are sent. */
  #settings(presets) {
    const list = h("ul", { class: "settings" });
    const filter = h("input", { type: "search", placeholder: "Search", "aria-label": "Search the settings" });
    const fill = () => {
      const preset = presets.querySelector(":checked").value;
      const words = filter.value.toLowerCase().split(/\s+/);
      const wanted = this.description.options.filter(({ name, help }) => {
        const text = `${name} ${help}`.toLowerCase();
        return words.every((word) => text.includes(word));
      });
      list.replaceChildren(...wanted.map((option) => this.#setting(option, preset)));
    };
    filter.addEventListener("input", fill);
    presets.addEventListener("change", fill);
    const details = h("details", { ontoggle: () => details.open && fill() }, h("summary", {}, "All settings"), filter, list);
    return details;
  }

  #setting({ name, type, defaults, help }, preset) {
    const value = this.changed.get(name) ?? defaults[preset];
    const input =
      type === "bool"
        ? h("input", { type: "checkbox", id: name, checked: value })
        : h("input", { id: name, value: String(value), inputMode: type === "str" ? "text" : "decimal", spellcheck: false });
    input.addEventListener("change", () => {
      const given = type === "bool" ? input.checked : type === "str" ? input.value : Number(input.value);
      const wrong = type !== "str" && Number.isNaN(given);
      input.setAttribute("aria-invalid", String(wrong));
      if (given === defaults[preset] || wrong) this.changed.delete(name);
      else this.changed.set(name, given);
    });
    return h("li", {}, h("label", { for: name }, h("code", {}, name), h("span", { class: "soft" }, help)), input);
  }
}

function presetChoice(name) {
  const input = h("input", { type: "radio", name: "preset", value: name, checked: name === "balanced" });
  return h("label", { class: "choice" }, input, h("span", {}, h("b", {}, name), h("span", { class: "soft" }, PRESETS[name] ?? "")));
}

function heldoutChoice(cameras, before) {
  const choices = cameras.map((value) =>
    h("label", {}, h("input", { type: "checkbox", name: "heldout", value, checked: before.includes(value) }), value),
  );
  return h(
    "details",
    {},
    h("summary", {}, "Cameras kept for scoring"),
    h("p", { class: "soft" }, "Training never sees them; the scene is judged by what they saw."),
    h("div", { class: "checks" }, choices),
  );
}
