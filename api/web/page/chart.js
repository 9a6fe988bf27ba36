/** A small line chart of what a job says about its training. */

const NAMESPACE = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT] = [480, 330];
const MARGIN = { left: 44, right: 12, top: 12, bottom: 26 };

/** PSNR against steps, a line for each stage of training. */
export class Chart {
  /** @param {HTMLElement} place */
  constructor(place) {
    this.lines = new Map();
    this.svg = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", class: "chart" });
    place.append(this.svg);
  }

  get empty() {
    return this.lines.size === 0;
  }

  /** Takes one event's data; only progress with a PSNR is of use. */
  add({ event, stage, step, total, psnr }) {
    if (event !== "progress" || psnr === undefined || step === undefined) return;
    const line = this.lines.get(stage) ?? { total, points: [] };
    while (line.points.length && line.points.at(-1)[0] >= step) line.points.pop(); // A stage that was begun again.
    line.points.push([step, psnr]);
    line.total = total;
    this.lines.set(stage, line);
    this.stale ??= requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    this.stale = null;
    const stages = [...this.lines.entries()];
    const values = stages.flatMap(([, { points }]) => points.map(([, value]) => value));
    const [low, high] = rounded(Math.min(...values), Math.max(...values));
    const width = stages.reduce((sum, [, { total }]) => sum + total, 0);
    const x = (step) => MARGIN.left + (step / width) * (WIDTH - MARGIN.left - MARGIN.right);
    const y = (value) => HEIGHT - MARGIN.bottom - ((value - low) / (high - low)) * (HEIGHT - MARGIN.top - MARGIN.bottom);
    this.svg.replaceChildren();
    for (const value of [low, (low + high) / 2, high]) {
      this.svg.append(svg("line", { x1: x(0), x2: x(width), y1: y(value), y2: y(value), class: "grid" }));
      this.svg.append(text(value.toFixed(1), x(0) - 6, y(value) + 4, "end"));
    }
    let begun = 0;
    stages.forEach(([stage, { points, total }], number) => {
      const path = points.map(([step, value]) => `${x(begun + step).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
      this.svg.append(svg("polyline", { points: path, class: `line line-${number % 3}` }));
      const [step, value] = points.at(-1);
      this.svg.append(svg("circle", { cx: x(begun + step), cy: y(value), r: 3, class: `dot line-${number % 3}` }));
      this.svg.append(text(STAGES[stage] ?? stage, x(begun) + 2, HEIGHT - 6, "start"));
      begun += total;
    });
    const last = stages.at(-1)[1].points.at(-1)[1];
    this.svg.setAttribute("aria-label", `PSNR on training pictures, ${last.toFixed(1)} decibel now`);
  }
}

const STAGES = { static: "still scene", joint: "motion" };

function rounded(low, high) {
  const step = high - low > 8 ? 4 : 2;
  const bottom = Math.floor(low / step) * step;
  return [bottom, Math.max(Math.ceil(high / step) * step, bottom + step)];
}

function svg(tag, attributes) {
  const element = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

function text(content, x, y, anchor) {
  const element = svg("text", { x, y, "text-anchor": anchor });
  element.textContent = content;
  return element;
}
