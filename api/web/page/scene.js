/** A finished scene: in 3D, how good it is, what it looks like beside the truth, and its files. */

import { Player } from "/assets/player/player.js";
import { get, linkTo, picture, remove, request } from "./api.js";
import { ago, bytes, counted, decibel, during, fault, h, number } from "./dom.js";
import { frame } from "./frame.js";

const SETS = {
  heldout_cameras: ["Cameras never seen", "What cameras saw that training never used."],
  heldout_times: ["Times never seen", "Instants around which no frame was used."],
  train: ["Training frames", "What training did see."],
};
const FILMS = { orbit: "Camera and time move", rig: "A camera over time", frozen: "Time stands still", depth: "Depth over time" };

const FILES = {
  "scene.safetensors": "the Gaussians",
  "scene.json": "what the Gaussians mean: cameras, times, units",
  "report.html": "how good it is, in one file",
  "scores.json": "the same as numbers",
  "config.json": "how it was made",
  "events.jsonl": "what was said meanwhile",
};

async function show() {
  frame();
  const content = document.getElementById("content");
  const id = location.pathname.split("/").pop();
  try {
    const scene = await get(`/v1/scenes/${id}`);
    document.title = `${scene.name} – recon4d`;
    const stage = h("div", {});
    content.append(
      h("h1", {}, scene.name),
      h("p", { class: "lead" }, facts(scene)),
      stage,
      quality(scene),
      await films(scene),
      await comparisons(scene),
      downloads(scene),
      removal(scene),
    );
    globalThis.player = new Player(stage, `/v1/scenes/${id}/artifacts/view/`, request);
    player.ready.catch(() => {}); // The player has told already.
  } catch (error) {
    content.append(h("h1", {}, "Scene"), fault(error));
  }
}

function facts({ cameras, duration_s, splats, preset, created_at }) {
  const parts = [counted(cameras.length, "camera"), `${duration_s.toFixed(2)} s`, `${number(splats)} Gaussians`, preset && `preset ${preset}`, ago(created_at)];
  return parts.filter(Boolean).join(" · ");
}

function quality({ scores }) {
  const rows = Object.entries(SETS).filter(([name]) => scores?.[name]);
  if (!rows.length) return null;
  const tile = (label, value, note) => h("div", { class: "tile" }, h("dt", {}, label), h("dd", {}, value), h("p", { class: "soft" }, note));
  const tiles = rows.flatMap(([name, [label, note]]) => [
    tile(`${label}, all pixels`, [decibel(scores[name].psnr), h("small", {}, " dB")], note),
    name !== "train" && tile(`${label}, moving pixels`, [decibel(scores[name].psnr_moving), h("small", {}, " dB")], "Those that differ from the still bench."),
  ]);
  const cameras = rows.flatMap(([name, [label]]) =>
    Object.entries(scores[name].cameras ?? {}).map(([camera, { psnr, psnr_moving, ssim }]) =>
      h("tr", {}, h("th", { scope: "row" }, camera), h("td", {}, label), h("td", {}, decibel(psnr)), h("td", {}, decibel(psnr_moving)), h("td", {}, ssim?.toFixed(3) ?? "–")),
    ),
  );
  return h(
    "section",
    { id: "quality" },
    h("h2", {}, "Quality"),
    h("dl", { class: "tiles" }, tiles.filter(Boolean)),
    h(
      "details",
      {},
      h("summary", {}, "By camera"),
      h(
        "div",
        { class: "scroll" },
        h(
          "table",
          {},
          h("thead", {}, h("tr", {}, ["Camera", "Frames", "PSNR, dB", "moving, dB", "SSIM"].map((name) => h("th", { scope: "col" }, name)))),
          h("tbody", {}, cameras),
        ),
      ),
    ),
  );
}

async function films({ id, artifacts, thumbnail }) {
  const videos = artifacts.filter(({ name }) => /^videos\/\w+\.mp4$/.test(name));
  if (!videos.length) return null;
  const poster = thumbnail ? await picture(thumbnail).catch(() => "") : "";
  const figures = await Promise.all(
    videos.map(async ({ name }) => {
      const kind = name.replace(/^videos\/|\.mp4$/g, "");
      const label = FILMS[kind] ?? kind;
      const video = h("video", { controls: true, loop: true, muted: true, playsInline: true, preload: "none", poster, src: await linkTo(id, name), "aria-label": label });
      return h("figure", {}, video, h("figcaption", {}, label));
    }),
  );
  return h("section", {}, h("h2", {}, "Films"), h("div", { class: "films" }, figures));
}

/** The frames that the report compares with their renders. */
async function comparisons({ id, artifacts }) {
  if (!artifacts.some(({ name }) => name === "report.html")) return null;
  const text = await (await request(`/v1/scenes/${id}/artifacts/report.html`)).text();
  // Only these parts: the page's policy objects to styles in the rest, even unseen.
  const parts = text.match(/<section class="triples">.*?<\/section>/gs) ?? [];
  const report = new DOMParser().parseFromString(parts.join(""), "text/html");
  const found = [...report.querySelectorAll(".triples figure")].map((figure) => ({
    camera: figure.querySelector("figcaption b")?.textContent,
    caption: figure.querySelector("figcaption")?.textContent.replace(/\s+/g, " ").trim(),
    pictures: [...figure.querySelectorAll("img")].filter(({ src }) => src.startsWith("data:image/")).map(({ alt, src }) => ({ alt, src })),
  }));
  const shown = found.filter(({ pictures }) => pictures.length === 3);
  if (!shown.length) return null;
  const row = ({ caption, pictures }) =>
    h(
      "figure",
      { class: "triple" },
      h("figcaption", {}, caption),
      h("div", {}, pictures.map(({ alt, src }) => h("span", {}, h("img", { src, alt: `${alt}: ${caption}` }), h("small", {}, alt)))),
    );
  const [first, others] = [shown.slice(0, 2), shown.slice(2)];
  return h(
    "section",
    { id: "comparisons" },
    h("h2", {}, "Truth beside render"),
    h("p", { class: "soft" }, "Frames that training never used: the true one, the rendered one, and four times their difference."),
    first.map(row),
    others.length > 0 && h("details", {}, h("summary", {}, `${others.length} more`), others.map(row)),
  );
}

function downloads({ id, artifacts }) {
  const shown = artifacts.filter(({ name }) => !name.startsWith("view/"));
  const save = (name, label) => {
    const button = h("button", { type: "button", onclick: () => during(button, async () => download(await linkTo(id, name), name)) }, label);
    return button;
  };
  const ply = h(
    "button",
    {
      type: "button",
      onclick: () =>
        during(ply, async () => {
          const time = globalThis.player?.viewer?.time ?? 0;
          const response = await request(`/v1/scenes/${id}/export?format=ply&t=${time}`);
          const address = URL.createObjectURL(await response.blob());
          download(address, `scene ${time.toFixed(2)} s.ply`);
          setTimeout(() => URL.revokeObjectURL(address), 10_000);
        }),
    },
    "PLY of the instant shown",
  );
  const report = h("button", { type: "button", onclick: () => during(report, async () => open(await linkTo(id, "report.html"), "_blank", "noopener")) }, "Open the report");
  return h(
    "section",
    { id: "downloads" },
    h("h2", {}, "Downloads"),
    h("div", { class: "row" }, artifacts.some(({ name }) => name === "report.html") && report, ply),
    h(
      "ul",
      { class: "rows files-left" },
      shown.map(({ name, size }) => h("li", {}, h("span", {}, name, h("small", {}, FILES[name] ?? "")), h("span", { class: "soft" }, bytes(size)), save(name, "Download"))),
    ),
  );
}

function download(address, name) {
  h("a", { href: address, download: name.split("/").pop() }).click();
}

function removal({ id, name, capture, job }) {
  const button = h(
    "button",
    {
      type: "button",
      class: "plain bad",
      onclick: () => {
        if (confirm(`Delete the scene “${name}” for good?`)) during(button, () => remove(`/v1/scenes/${id}`).then(() => (location.href = "/")));
      },
    },
    "Delete the scene",
  );
  return h(
    "div",
    { class: "row foot" },
    capture && h("a", { class: "button", href: `/#/capture/${capture}` }, "The capture"),
    job && h("a", { class: "button", href: `/#/job/${job}` }, "How it was made"),
    button,
  );
}

show();
