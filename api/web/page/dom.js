/** Elements, numbers and times as the pages show them. */

/**
 * An element. Properties that start with "on" are listeners, `class` and `data-…` and `aria-…` are attributes; children are
 * elements or text, and whatever is null or false is left out.
 */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && !name.includes("-")) element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Text for a time: "5 minutes ago", or the day. */
export function ago(iso) {
  const seconds = (Date.now() - Date.parse(iso)) / 1000;
  if (seconds < 60) return "just now";
  const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
  if (seconds < 3600) return relative.format(-Math.round(seconds / 60), "minute");
  if (seconds < 86400) return relative.format(-Math.round(seconds / 3600), "hour");
  return new Date(iso).toLocaleDateString("en", { day: "numeric", month: "short", year: "numeric" });
}

export function bytes(count) {
  if (count < 1000) return `${count} B`;
  const power = Math.min(Math.floor(Math.log10(count) / 3), 4);
  return `${(count / 1000 ** power).toPrecision(3)} ${["kB", "MB", "GB", "TB"][power - 1]}`;
}

export function duration(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

export function number(value) {
  return new Intl.NumberFormat("en").format(value);
}

/** A decibel figure, or a dash. */
export function decibel(value) {
  return Number.isFinite(value) ? value.toFixed(1) : "–";
}

/** "1 camera", "3 cameras". */
export function counted(count, noun) {
  return `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** What went wrong, and what to do. */
export function fault({ message, hint, faults = [] }) {
  const all = faults.length > 1 && h("ul", {}, faults.slice(0, 20).map((text) => h("li", {}, text)));
  return h("div", { class: "note bad", role: "alert" }, h("p", {}, message), all, hint && h("p", {}, hint));
}

/** Runs an action of a button: it cannot be pressed again meanwhile, and what goes wrong is said beside it. */
export async function during(button, action) {
  const said = button.parentElement.querySelector(":scope > .note.bad");
  said?.remove();
  button.disabled = true;
  try {
    return await action();
  } catch (error) {
    button.parentElement.append(fault(error));
    return undefined;
  } finally {
    button.disabled = false;
  }
}
