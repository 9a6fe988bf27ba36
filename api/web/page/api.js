/** The service as the pages use it. */

const STORED_KEY = "recon4d-key";
const RETRY_MS = 1500;

/** An answer that says what went wrong: its problem document in words. */
export class Problem extends Error {
  constructor(status, document) {
    const detail = document.detail ?? document.title ?? `The service answered ${status}.`;
    super(document.camera ? `camera ${document.camera}: ${detail}` : detail);
    this.status = status;
    this.hint = document.hint;
    /** All that is wrong where it is more than one thing, in words. */
    this.faults = (document.errors ?? []).map(({ camera, pointer, parameter, message, detail: text }) =>
      [camera ? `camera ${camera}` : (pointer ?? parameter), message ?? text].filter(Boolean).join(": "),
    );
  }
}

let askForKey = () => Promise.reject(new Error("A key is needed."));

/** Says how to ask a person for the key; the promise settles once `setKey` was called. */
export function whenKeyIsNeeded(ask) {
  askForKey = ask;
}

/** Kept for this tab alone, and gone with it. */
export function setKey(key) {
  if (key) sessionStorage.setItem(STORED_KEY, key);
  else sessionStorage.removeItem(STORED_KEY);
}

export function hasKey() {
  return sessionStorage.getItem(STORED_KEY) !== null;
}

/** `fetch` with the key; asks for one when it is missing or wrong, and rejects with a Problem. */
export async function request(path, options = {}) {
  for (;;) {
    const headers = new Headers(options.headers);
    const key = sessionStorage.getItem(STORED_KEY);
    if (key) headers.set("Authorization", `Bearer ${key}`);
    const response = await fetch(path, { ...options, headers });
    if (response.status === 401) {
      await askForKey(key !== null);
      continue;
    }
    if (response.ok) return response;
    throw new Problem(response.status, await response.json().catch(() => ({})));
  }
}

export async function get(path) {
  return (await request(path)).json();
}

export async function post(path, body = undefined) {
  const sent = body === undefined ? {} : { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  return (await request(path, { method: "POST", ...sent })).json();
}

export async function remove(path) {
  await request(path, { method: "DELETE" });
}

/** A picture as an address for `img`, which cannot send a key itself. Revoke it when it is done with. */
export async function picture(path) {
  return URL.createObjectURL(await (await request(path)).blob());
}

/** Shows a picture once it is there; nothing where there is none. */
export async function showPicture(image, path) {
  const earlier = image.src;
  try {
    image.src = await picture(path);
  } catch {
    return false;
  }
  if (earlier.startsWith("blob:")) URL.revokeObjectURL(earlier);
  return true;
}

/** An address of a scene's file that works without a key for an hour. */
export async function linkTo(scene, name) {
  return (await post(`/v1/scenes/${scene}/links`, { name, seconds: 3600 })).url;
}

/**
 * What a job says, each event once and in order, until it has ended. The stream is taken up again when it breaks.
 *
 * @param {string} path of the job's events.
 * @param {AbortSignal} signal ends it from here.
 */
export async function* events(path, signal) {
  let last = 0;
  while (!signal.aborted) {
    try {
      const response = await request(path, {
        signal,
        headers: { Accept: "text/event-stream", ...(last ? { "Last-Event-ID": String(last) } : {}) },
      });
      if (response.status === 204) return;
      for await (const { id, data } of messages(response.body)) {
        last = Number(id);
        const event = JSON.parse(data);
        yield event;
        if (isLast(event.data)) return;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Problem && error.status < 500) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

function isLast({ event, state }) {
  return event === "state" && ["succeeded", "failed", "cancelled"].includes(state);
}

/** Messages of a text/event-stream. */
async function* messages(body) {
  let rest = "";
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split(/\r?\n\r?\n/);
    rest = blocks.pop();
    for (const block of blocks) {
      const fields = {};
      for (const line of block.split(/\r?\n/)) {
        const [, name, text] = /^(\w+): ?(.*)$/.exec(line) ?? [];
        if (name) fields[name] = name in fields ? `${fields[name]}\n${text}` : text;
      }
      if (fields.data !== undefined) yield fields;
    }
  }
}
