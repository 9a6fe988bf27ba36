/** The player: a scene on a stage, and what it is operated with. */

import { readView } from "./view.js";
import { Viewer } from "./viewer.js";

const STEP_S = 1 / 30;

/** Fills an element with a scene and its controls. */
export class Player {
  /**
   * @param {HTMLElement} place is filled.
   * @param {string} folder address of the scene's view.
   * @param {(path: string) => Promise<Response>} fetcher gets its files.
   */
  constructor(place, folder, fetcher = (path) => fetch(path)) {
    this.place = place;
    place.classList.add("player");
    place.innerHTML = MARKUP;
    this.parts = Object.fromEntries([...place.querySelectorAll("[data-part]")].map((part) => [part.dataset.part, part]));
    /** Settles when the first picture is there; rejects when there is none to be had. */
    this.ready = this.#load(folder, fetcher).catch((error) => {
      this.#say(error.message);
      throw error;
    });
  }

  async #load(folder, fetcher) {
    if (!document.createElement("canvas").getContext("webgl2")) {
      throw new Error("This browser has no WebGL 2, which the 3D view needs. The videos and pictures work without it.");
    }
    const view = await readView(folder, fetcher, (share) => (this.parts.loading.value = share));
    this.viewer = new Viewer(this.parts.canvas, view);
    this.#fill(view);
    this.#listen();
    await this.viewer.settle();
    this.parts.loading.hidden = true;
    this.place.classList.add("ready");
    return this;
  }

  dispose() {
    this.viewer?.dispose();
    this.place.replaceChildren();
  }

  #say(message) {
    this.parts.loading.hidden = true;
    this.parts.message.textContent = message;
    this.parts.message.hidden = false;
  }

  #fill(view) {
    const { slider, cameras, facts } = this.parts;
    slider.max = view.duration_s;
    const names = [["", "Free"], ...view.cameras.map(({ name }) => [name, name])];
    cameras.append(...names.map(([value, label], index) => radio(value, label, index)));
    const count = new Intl.NumberFormat("en").format(view.counts.static + view.counts.dynamic);
    facts.textContent = `${count} Gaussians, ${view.cameras.length} cameras`;
    this.#showTime();
    this.#showCamera();
    this.#showFrame();
  }

  #listen() {
    const { viewer } = this;
    const { canvas, slider, play, cameras, speed, rig, full, save } = this.parts;
    viewer.addEventListener("time", () => this.#showTime());
    viewer.addEventListener("camera", () => this.#showCamera());
    viewer.addEventListener("frame", () => this.#showFrame());
    viewer.addEventListener("play", () => this.#showPlaying());
    slider.addEventListener("input", () => {
      viewer.pause();
      viewer.time = slider.valueAsNumber;
    });
    play.addEventListener("click", () => this.#toggle());
    cameras.addEventListener("change", ({ target }) => this.#stand(target.value));
    speed.addEventListener("change", () => (viewer.speed = Number(speed.value)));
    rig.addEventListener("change", () => (viewer.rigShown = rig.checked));
    save.addEventListener("click", () => this.#save());
    full.addEventListener("click", () => this.#fullScreen());
    if (!document.fullscreenEnabled) full.hidden = true;
    this.place.addEventListener("keydown", (event) => this.#key(event));
    canvas.addEventListener("pointerdown", () => canvas.focus({ preventScroll: true }));
  }

  #toggle() {
    if (this.viewer.playing) this.viewer.pause();
    else this.viewer.play();
  }

  #stand(name) {
    if (name) this.viewer.stand(name);
    else this.viewer.release();
  }

  #fullScreen() {
    if (document.fullscreenElement) document.exitFullscreen();
    else this.place.requestFullscreen();
  }

  async #save() {
    const { viewer } = this;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await viewer.picture(viewer.standing));
    link.download = `${viewer.standing ?? "view"} ${viewer.time.toFixed(2)} s.png`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  /** Keys work wherever in the player the focus is, unless the focused part has a use for them itself. */
  #key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const onStage = event.target === this.parts.canvas;
    const digit = Number.parseInt(event.key, 10);
    const { viewer } = this;
    const actions = {
      k: () => this.#toggle(),
      f: () => this.#fullScreen(),
      ",": () => this.#step(-STEP_S),
      ".": () => this.#step(STEP_S),
      a: () => viewer.turn(1, 0),
      d: () => viewer.turn(-1, 0),
      w: () => viewer.turn(0, 1),
      s: () => viewer.turn(0, -1),
      "+": () => viewer.turn(0, 0, 1),
      "-": () => viewer.turn(0, 0, -1),
    };
    if (onStage) {
      Object.assign(actions, {
        " ": actions.k,
        ArrowLeft: actions[","],
        ArrowRight: actions["."],
      });
    }
    const camera = digit > 0 ? viewer.cameras[digit - 1] : undefined;
    if (digit === 0) actions[0] = () => viewer.release();
    if (camera) actions[digit] = () => viewer.stand(camera.name);
    const action = actions[event.key] ?? actions[event.key.toLowerCase()];
    if (!action || event.target.tagName === "SELECT") return;
    event.preventDefault();
    action();
  }

  #step(seconds) {
    this.viewer.pause();
    this.viewer.time += seconds;
  }

  #showTime() {
    const { slider, now } = this.parts;
    const { time, duration } = this.viewer;
    slider.value = time;
    slider.style.setProperty("--share", duration ? time / duration : 0);
    slider.setAttribute("aria-valuetext", `${time.toFixed(2)} seconds`);
    now.textContent = `${time.toFixed(2)} / ${duration.toFixed(2)} s`;
  }

  #showPlaying() {
    const { play } = this.parts;
    play.setAttribute("aria-label", this.viewer.playing ? "Pause" : "Play");
    this.place.classList.toggle("playing", this.viewer.playing);
  }

  #showCamera() {
    const standing = this.viewer.standing ?? "";
    for (const choice of this.parts.cameras.querySelectorAll("input")) {
      choice.checked = choice.value === standing;
      if (choice.checked) revealed(choice.parentElement, this.parts.cameras);
    }
    this.parts.stage.classList.toggle("standing", standing !== "");
  }

  #showFrame() {
    const { left, top, width, height } = this.viewer.camera.frame;
    Object.assign(this.parts.frame.style, {
      left: `${left}px`,
      top: `${top}px`,
      width: `${width}px`,
      height: `${height}px`,
    });
  }
}

/** Scrolls a row of choices, and nothing else, until one is in sight. */
function revealed(choice, row) {
  const [left, right] = [choice.offsetLeft - row.offsetLeft, choice.offsetLeft - row.offsetLeft + choice.offsetWidth];
  if (left < row.scrollLeft) row.scrollLeft = left;
  else if (right > row.scrollLeft + row.clientWidth) row.scrollLeft = right - row.clientWidth;
}

function radio(value, label, index) {
  const choice = document.createElement("label");
  const input = Object.assign(document.createElement("input"), { type: "radio", name: "camera", value });
  const text = Object.assign(document.createElement("span"), { textContent: label });
  if (index < 10) choice.title = `Key ${index}`;
  choice.append(input, text);
  return choice;
}

const MARKUP = `
  <div class="stage" data-part="stage">
    <canvas data-part="canvas" tabindex="0" role="img" aria-label="The scene in 3D. Space plays and pauses, the left and
      right arrows step through time, digits choose a camera, A D W S turn the view, plus and minus change the distance."></canvas>
    <div class="frame" data-part="frame" aria-hidden="true"></div>
    <progress data-part="loading" aria-label="Loading the scene" max="1" value="0"></progress>
    <p class="message" data-part="message" role="alert" hidden></p>
  </div>
  <div class="bar">
    <button class="play" type="button" data-part="play" aria-label="Play"><i aria-hidden="true"></i></button>
    <input type="range" data-part="slider" aria-label="Time" min="0" max="1" step="0.01" value="0" />
    <output class="now" data-part="now"></output>
  </div>
  <fieldset class="cameras" data-part="cameras">
    <legend>Camera</legend>
  </fieldset>
  <div class="tools">
    <label>Speed
      <select data-part="speed">
        <option value="1">1×</option>
        <option value="0.5">½×</option>
        <option value="0.25">¼×</option>
        <option value="0.1">⅒×</option>
      </select>
    </label>
    <label><input type="checkbox" data-part="rig" /> Show the rig</label>
    <button type="button" data-part="save">Save picture</button>
    <button type="button" data-part="full">Full screen</button>
    <span class="facts" data-part="facts"></span>
  </div>
  <p class="keys">Drag to look around, scroll to come nearer. Keys: <kbd>K</kbd> play, <kbd>,</kbd> <kbd>.</kbd> step,
    <kbd>1</kbd>–<kbd>9</kbd> cameras, <kbd>0</kbd> free, <kbd>A</kbd> <kbd>D</kbd> <kbd>W</kbd> <kbd>S</kbd> turn,
    <kbd>+</kbd> <kbd>-</kbd> distance, <kbd>F</kbd> full screen.</p>
`;
