/** One capture: its videos, its calibration, a check, and the way to a scene. */

import { get, remove, request } from "./api.js";
import { Checking } from "./check.js";
import { bytes, counted, during, fault, h } from "./dom.js";
import { sorted } from "./files.js";
import { Launch } from "./launch.js";
import { Queue, Upload } from "./upload.js";

/** Uploads go on while other parts of the page are looked at. */
const sending = new Map();
addEventListener("beforeunload", (event) => {
  const busy = [...sending.values()].some(({ uploads }) => uploads.some(({ state }) => isBusy(state)));
  if (busy) event.preventDefault();
});

export async function captureView(place, signal, id) {
  const page = new CapturePage(place, signal, id);
  await page.loaded;
  await page.begin();
}

class CapturePage {
  constructor(place, signal, id) {
    Object.assign(this, { place, signal, id });
    if (!sending.has(id)) sending.set(id, { queue: new Queue(), uploads: [], names: new Map() });
    Object.assign(this, sending.get(id));
    this.title = h("h1", {});
    this.files = h("ul", { class: "files" });
    this.asked = h("div", {});
    this.faults = h("div", {});
    this.rig = h("div", {});
    this.checkPlace = h("section", {});
    this.launchPlace = h("section", {});
    place.append(this.title, this.#videoSection(), this.checkPlace, this.launchPlace);
    for (const upload of this.uploads) this.#watch(upload);
    this.loaded = this.refresh();
  }

  /** What needs the capture: a check that is there already, the presets. */
  async begin() {
    this.checking = new Checking(this.checkPlace, this.signal, this.id);
    this.launch = new Launch(this.launchPlace, this.id);
    await Promise.all([this.checking.begin(), this.launch.begin(this.capture)]);
    this.#update();
  }

  async refresh() {
    this.capture = await get(`/v1/captures/${this.id}`);
    if (this.signal.aborted) return;
    document.title = `${this.capture.name} – recon4d`;
    this.title.textContent = this.capture.name;
    this.#update();
  }

  #videoSection() {
    const input = h("input", { type: "file", multiple: true, class: "away", onchange: () => (this.take(input.files), (input.value = "")) });
    const zone = h(
      "label",
      { class: "drop" },
      input,
      h("b", {}, "Drop the files here, or choose them"),
      h("span", { class: "soft" }, "One video a camera, capture.json, and files with frame times if there are any."),
    );
    for (const type of ["dragover", "dragleave", "drop"]) {
      zone.addEventListener(type, (event) => {
        event.preventDefault();
        zone.classList.toggle("over", type === "dragover");
        if (type === "drop") this.take(event.dataTransfer.files);
      });
    }
    return h("section", {}, h("h2", {}, "Videos and calibration"), zone, this.faults, this.asked, this.rig, this.files);
  }

  /** Takes files that somebody dropped: calibrations first, as they say which video is whose. */
  async take(list) {
    const files = [...list]; // The browser empties its list.
    await this.loaded;
    this.faults.replaceChildren();
    const { calibrations, videos, times } = await sorted(files);
    for (const { file, content } of calibrations) {
      try {
        await this.#calibrate(content);
      } catch (error) {
        this.faults.append(fault(Object.assign(error, { message: `${file.name}: ${error.message}` })));
      }
    }
    for (const file of videos) this.#send(file, "video");
    for (const file of times) this.#send(file, "timestamps");
    await this.refresh();
  }

  async #calibrate(content) {
    await request(`/v1/captures/${this.id}/calibration`, {
      method: "PUT",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(content),
    });
    for (const { name, video, timestamps } of Array.isArray(content.cameras) ? content.cameras : []) {
      if (video) this.names.set(basename(video), name);
      if (timestamps) this.names.set(basename(timestamps), name);
    }
    await this.refresh();
    this.launch?.begin(this.capture);
  }

  #send(file, kind) {
    const { cameras } = this.capture;
    const stem = file.name.split(".")[0];
    const camera = this.names.get(file.name) ?? cameras.find((name) => name === stem) ?? (cameras.length ? null : stem);
    if (camera === null) this.#ask(file, kind);
    else this.#upload(file, kind, camera);
  }

  /** Whose a file is that no camera is named like. */
  #ask(file, kind) {
    const choice = h("select", { id: `whose-${file.name}` }, this.capture.cameras.map((name) => h("option", {}, name)));
    const row = h(
      "form",
      {
        class: "note row",
        onsubmit: (event) => {
          event.preventDefault();
          row.remove();
          this.#upload(file, kind, choice.value);
        },
      },
      h("label", { for: choice.id }, `Which camera is ${file.name} of?`),
      choice,
      h("button", {}, "Send"),
      h("button", { type: "button", class: "plain", onclick: () => row.remove() }, "Leave it out"),
    );
    this.asked.append(row);
  }

  #upload(file, kind, camera) {
    const unfinished = this.capture.uploads.find(
      (known) => known.camera === camera && known.kind === kind && known.filename === file.name && known.length === file.size,
    );
    const going = this.uploads.find(({ to, state }) => to.camera === camera && to.kind === kind && isBusy(state));
    if (going) return;
    const upload = new Upload(file, { capture: this.id, camera, kind }, unfinished?.url);
    this.uploads.push(upload);
    this.#watch(upload);
    this.queue.add(upload);
  }

  #watch(upload) {
    upload.addEventListener(
      "change",
      () => {
        if (upload.state === "done") this.refresh();
        else this.#update();
      },
      { signal: this.signal },
    );
  }

  #update() {
    const { capture } = this;
    const names = new Set([...capture.cameras, ...capture.files.map(({ camera }) => camera)]);
    for (const { camera } of capture.uploads) names.add(camera);
    for (const { to } of this.uploads) names.add(to.camera);
    this.files.replaceChildren(...[...names].map((name) => this.#cameraRow(name)));
    const toGo = this.uploads.filter(({ state }) => isBusy(state)).length;
    const ready = capture.ready && !toGo;
    const missing = toGo ? `Sending, ${counted(toGo, "file")} to go.` : `Still missing: ${capture.missing.join("; ")}.`;
    const said = ready ? `Everything is here: ${counted(capture.cameras.length, "camera")}.` : missing;
    this.rig.replaceChildren(h("p", { class: ready ? "good" : "soft" }, said));
    this.checking?.allow(ready);
    this.launch?.allow(ready);
  }

  #cameraRow(name) {
    const rows = ["video", "timestamps"].map((kind) => this.#fileLine(name, kind));
    return h("li", {}, h("b", {}, name), h("div", {}, rows));
  }

  #fileLine(camera, kind) {
    const upload = this.uploads.findLast(({ to }) => to.camera === camera && to.kind === kind);
    if (upload && !["done", "stopped"].includes(upload.state)) return this.#uploadLine(upload);
    const file = this.capture.files.find((known) => known.camera === camera && known.kind === kind);
    if (file) return this.#storedLine(file);
    const open = this.capture.uploads.find((known) => known.camera === camera && known.kind === kind);
    if (open) {
      const share = Math.round((100 * open.offset) / open.length);
      return h("p", { class: "warn" }, `${open.filename}: ${share} % are here. Choose the file again to go on.`);
    }
    return kind === "video" ? h("p", { class: "soft" }, "No video yet") : null;
  }

  #uploadLine(upload) {
    const { name, state, sent, file, error } = upload;
    const stop = h("button", { type: "button", class: "plain", onclick: () => this.#dismiss(upload) }, state === "failed" ? "Dismiss" : "Stop");
    if (state === "failed") {
      return h("div", { class: "line bad" }, h("span", {}, `${name}: ${error.message} ${error.hint ?? ""}`), stop);
    }
    const said = { waiting: "waits", retrying: "no connection, trying again", checking: "is being checked" }[state];
    return h(
      "div",
      { class: "line" },
      h("span", {}, said ? `${name} ${said}` : `${name}, ${bytes(sent)} of ${bytes(file.size)}`),
      h("progress", { max: file.size || 1, value: sent, "aria-label": `Sending ${name}` }),
      stop,
    );
  }

  async #dismiss(upload) {
    await upload.stop();
    this.uploads.splice(this.uploads.indexOf(upload), 1);
    await this.refresh();
  }

  #storedLine(file) {
    const { width, height, frames, seconds } = file.facts;
    const facts = [width && `${width} × ${height}`, frames && counted(frames, "frame"), seconds && `${seconds.toFixed(1)} s`, bytes(file.size)];
    const take = h(
      "button",
      {
        type: "button",
        class: "plain",
        "aria-label": `Remove ${file.filename}`,
        onclick: () => during(take, () => remove(`/v1/captures/${this.id}/files/${file.id}`).then(() => this.refresh())),
      },
      "Remove",
    );
    return h(
      "div",
      { class: "line" },
      h("span", {}, h("span", { class: "good", "aria-hidden": "true" }, "✓ "), file.kind === "video" ? file.filename : `times: ${file.filename}`),
      h("span", { class: "soft" }, facts.filter(Boolean).join(", ")),
      take,
    );
  }
}

function isBusy(state) {
  return ["waiting", "sending", "retrying", "checking"].includes(state);
}

function basename(path) {
  return String(path).split(/[\\/]/).pop();
}
