/** Draws a scene on a canvas: its time, its camera, and nothing while neither changes. */

import * as THREE from "three";
import { OrbitControls } from "three/addons/controls/OrbitControls.js";
import { SparkRenderer } from "@sparkjsdev/spark";
import { PinholeCamera, centred, mixedLens, rigCamera, rigLines } from "./camera.js";
import { InstantSplats } from "./splats.js";

const CUT = 1 / 255;
const DILATION_PX2 = 0.3;
const FLIGHT_S = 0.5;
const LARGEST_PIXEL_RATIO = 1.5;
const TURN_RAD = Math.PI / 36;

/** A lens for scenes that have no rig. */
const PLAIN_LENS = { width: 640, height: 480, fx: 560, fy: 560, cx: 320, cy: 240 };

/**
 * Events: "time" (another instant), "camera" (another place to stand, or left one), "play" (playing or not), "frame"
 * (the canvas changed its size or the lens did).
 */
export class Viewer extends EventTarget {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {object} view what `readView` returned.
   */
  constructor(canvas, view) {
    super();
    this.canvas = canvas;
    this.duration = view.duration_s;
    this.background = view.background;
    this.cameras = view.cameras.map(rigCamera);
    this.focus = new THREE.Vector3(...view.focus);
    this.playing = false;
    this.speed = 1;
    this.standing = null;
    this.renderer = new THREE.WebGLRenderer({ canvas, antialias: false, powerPreference: "high-performance" });
    this.scene = new THREE.Scene();
    this.splats = new InstantSplats(view);
    this.spark = new SparkRenderer({ renderer: this.renderer, onDirty: () => this.#wake(), ...contract(view) });
    this.scene.add(this.spark, this.splats);
    this.camera = new PinholeCamera(this.cameras[0]?.lens ?? PLAIN_LENS);
    this.#addRigLines();
    this.#addControls();
    this.#expose(1);
    if (this.cameras.length) this.stand(this.cameras[0].name, { smooth: false });
    else this.#lookAround();
    this.observer = new ResizeObserver(() => this.#fit());
    this.observer.observe(canvas.parentElement);
    this.#fit();
  }

  /** Seconds on the capture's clock, 0 to `duration`. */
  get time() {
    return this.splats.time;
  }

  set time(seconds) {
    const inside = Math.min(Math.max(seconds, 0), this.duration);
    if (inside === this.splats.time) return;
    this.splats.time = inside;
    this.dispatchEvent(new Event("time"));
    this.#wake();
  }

  play() {
    if (this.playing || !this.duration) return;
    if (this.time >= this.duration) this.time = 0;
    this.#setPlaying(true);
  }

  pause() {
    if (this.playing) this.#setPlaying(false);
  }

  /** Stands where a camera of the rig stands, with its lens and exposure. */
  stand(name, { smooth = !matchMedia("(prefers-reduced-motion: reduce)").matches } = {}) {
    const to = this.cameras.find((camera) => camera.name === name);
    if (!to) throw new Error(`There is no camera '${name}'.`);
    this.standing = name;
    this.#expose(to.exposure);
    const { lens, position, quaternion } = this.camera;
    const from = { lens, position: position.clone(), quaternion: quaternion.clone() };
    this.flight = { from, to, share: smooth ? 0 : 1 };
    this.#fly(0);
    this.dispatchEvent(new Event("camera"));
    this.#wake();
  }

  /** Leaves the rig's camera: the view can be turned from here on. */
  release() {
    this.flight = null;
    this.#aim();
    this.#setFree();
    this.controls.update();
    this.#wake();
  }

  /** Turns around what is looked at by steps to the left and upwards, and steps nearer. */
  turn(left, up, nearer = 0) {
    if (this.standing !== null) this.release();
    const offset = this.camera.position.clone().sub(this.controls.target);
    const around = new THREE.Spherical().setFromVector3(new THREE.Vector3(offset.y, offset.z, offset.x));
    around.theta -= left * TURN_RAD;
    around.phi = Math.min(Math.max(around.phi - up * TURN_RAD, 0.02), this.controls.maxPolarAngle);
    around.radius *= 0.9 ** nearer;
    const { x, y, z } = new THREE.Vector3().setFromSpherical(around);
    this.camera.position.set(z, x, y).add(this.controls.target);
    this.controls.update();
    this.#wake();
  }

  set rigShown(shown) {
    this.lines.visible = shown;
    this.#wake();
  }

  /** Waits until the picture is that of the present time and camera, and draws it. */
  async settle() {
    do {
      await this.spark.update({ scene: this.scene, camera: this.camera });
      while (this.spark.sorting || this.spark.sortDirty) await pause();
    } while (this.spark.sortDirty);
    this.renderer.render(this.scene, this.camera);
  }

  /**
   * The picture that a camera of the rig would take at an instant, as PNG in its own size; the present one of the canvas
   * without a name.
   */
  async picture(name = null, time = this.time) {
    this.pause();
    if (name !== null) this.stand(name, { smooth: false });
    this.time = time;
    this.still = name !== null;
    this.#fit();
    try {
      await this.settle();
      return await new Promise((resolve) => this.canvas.toBlob(resolve, "image/png"));
    } finally {
      this.still = false;
      this.#fit();
    }
  }

  dispose() {
    cancelAnimationFrame(this.awake);
    this.observer.disconnect();
    this.controls.dispose();
    this.splats.dispose();
    this.spark.dispose();
    this.renderer.dispose();
  }

  #addControls() {
    this.controls = new OrbitControls(this.camera, this.canvas);
    this.controls.enableDamping = true;
    this.controls.dampingFactor = 0.15;
    this.controls.maxPolarAngle = 0.55 * Math.PI;
    this.controls.minDistance = 0.05;
    const distances = this.cameras.map(({ position }) => position.distanceTo(this.focus));
    this.controls.maxDistance = 4 * Math.max(1, ...distances);
    this.controls.addEventListener("start", () => {
      this.flight = null;
      if (this.standing !== null) this.#aim();
    });
    this.controls.addEventListener("change", () => {
      this.#setFree();
      this.#wake();
    });
  }

  #addRigLines() {
    const distances = this.cameras.map(({ position }) => position.distanceTo(this.focus));
    this.lines = rigLines(this.cameras, 0.15 * Math.min(1, ...distances), 0x7db6e8);
    this.lines.visible = false;
    this.scene.add(this.lines);
  }

  /** What the view turns around: the point of the line of sight that is nearest to the scene's focus. */
  #aim() {
    const forward = this.camera.getWorldDirection(new THREE.Vector3());
    const along = this.focus.clone().sub(this.camera.position).dot(forward);
    this.controls.target.copy(this.camera.position).addScaledVector(forward, Math.max(along, 0.1));
  }

  #lookAround() {
    this.camera.position.copy(this.focus).add(new THREE.Vector3(1, -1, 0.8));
    this.controls.target.copy(this.focus);
    this.controls.update();
  }

  #setFree() {
    if (this.standing === null) return;
    this.standing = null;
    this.#expose(1);
    this.camera.setLens(centred(this.camera.lens));
    this.dispatchEvent(new Event("camera"));
    this.dispatchEvent(new Event("frame"));
  }

  #setPlaying(playing) {
    this.playing = playing;
    this.lastFrame = null;
    this.dispatchEvent(new Event("play"));
    this.#wake();
  }

  #expose(factor) {
    this.splats.exposure = factor;
    const [r, g, b] = this.background.map((value) => Math.min(value * factor, 1));
    this.renderer.setClearColor(new THREE.Color().setRGB(r, g, b, THREE.SRGBColorSpace), 1);
  }

  #fit() {
    const box = this.canvas.parentElement.getBoundingClientRect();
    const { lens } = this.camera;
    const size = this.still ? lens : { width: Math.max(box.width, 1), height: Math.max(box.height, 1) };
    this.renderer.setPixelRatio(this.still ? 1 : Math.min(devicePixelRatio, LARGEST_PIXEL_RATIO));
    this.renderer.setSize(size.width, size.height, false);
    this.camera.setCanvas(size.width, size.height);
    if (!this.still) this.dispatchEvent(new Event("frame"));
    this.#wake();
  }

  #wake() {
    this.awake ??= requestAnimationFrame((now) => this.#frame(now));
  }

  #frame(now) {
    this.awake = null;
    if (this.still) return;
    const seconds = this.lastFrame ? (now - this.lastFrame) / 1000 : 0;
    this.lastFrame = now;
    if (this.playing) {
      this.time = (this.time + seconds * this.speed) % this.duration;
      this.#wake();
    }
    if (this.flight) this.#fly(seconds);
    else if (this.standing === null && this.controls.update()) this.#wake();
    this.renderer.render(this.scene, this.camera);
    if (!this.awake) this.lastFrame = null;
  }

  #fly(seconds) {
    const { from, to } = this.flight;
    this.flight.share = Math.min(this.flight.share + seconds / FLIGHT_S, 1);
    const { share } = this.flight;
    const eased = share * share * (3 - 2 * share);
    this.camera.position.lerpVectors(from.position, to.position, eased);
    this.camera.quaternion.slerpQuaternions(from.quaternion, to.quaternion, eased);
    this.camera.setLens(share < 1 ? mixedLens(from.lens, to.lens, eased) : to.lens);
    this.camera.updateMatrixWorld();
    if (share === 1) this.flight = null;
    else this.#wake();
    this.dispatchEvent(new Event("frame"));
  }
}

/** Spark's settings that draw as the scene's own rasterizers do. */
function contract({ antialiased }) {
  return {
    accumExtSplats: true,
    clipXY: 2,
    sortRadial: false,
    minAlpha: CUT,
    maxStdDev: Math.sqrt(2 * Math.log(255)),
    maxPixelRadius: 4096,
    preBlurAmount: antialiased ? 0 : DILATION_PX2,
    blurAmount: antialiased ? DILATION_PX2 : 0,
    enableLod: false,
  };
}

const pause = () => new Promise((resolve) => setTimeout(resolve, 4));
