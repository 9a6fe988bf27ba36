/** Sends files piece by piece (tus 1.0.0), so that a broken connection or a closed page costs no more than one piece. */

import { Problem, post, remove, request } from "./api.js";
import { Sha256 } from "./sha256.js";

/** Bytes sent at once: as many as take about a second, so that slow lines show progress and fast ones are filled. */
const [SMALLEST, FIRST, LARGEST] = [2 ** 16, 2 ** 18, 2 ** 23];
const [BRISK_MS, SLOW_MS] = [500, 3000];
const READ = 4 * 2 ** 20;
const TUS = { "Tus-Resumable": "1.0.0" };
const AT_ONCE = 3;
const LONGEST_WAIT_MS = 30_000;

/** One file on its way. Event "change": `state` or `sent` is another. */
export class Upload extends EventTarget {
  /**
   * @param {File} file
   * @param {{capture: string, camera: string, kind: string}} to
   * @param {string | null} address of an unfinished upload of the same file, to go on with.
   */
  constructor(file, to, address = null) {
    super();
    Object.assign(this, { file, to, address, sent: 0, state: "waiting", error: null });
    this.stopping = new AbortController();
  }

  get name() {
    return this.file.name;
  }

  /** Sends all of it; never rejects: `state` ends as "done", "failed" or "stopped". */
  async run() {
    for (let attempt = 0; ; attempt += 1) {
      try {
        await this.#send(() => (attempt = 0));
        this.#is("done");
        return;
      } catch (error) {
        if (this.stopping.signal.aborted) return;
        if (isFinal(error)) {
          this.error = error;
          this.#is("failed");
          return;
        }
        if (error.status === 404 || error.status === 410) this.address = null;
        this.#is("retrying");
        await new Promise((resolve) => setTimeout(resolve, Math.min(1000 * 2 ** attempt, LONGEST_WAIT_MS)));
      }
    }
  }

  /** Gives it up, here and at the service. */
  async stop() {
    this.stopping.abort();
    this.#is("stopped");
    if (this.address) await remove(this.address).catch(() => {});
  }

  async #send(onProgress) {
    const { file, stopping } = this;
    const hash = new Sha256();
    let hashed = 0;
    let length = FIRST;
    let offset = this.address ? await this.#offset() : await this.#create();
    while (offset < file.size) {
      hashed = await hashTo(hash, file, hashed, offset);
      const end = Math.min(offset + length, file.size);
      const begun = performance.now();
      const data = await piece(file, offset, end);
      this.#is("sending", offset);
      const response = await request(this.address, {
        method: "PATCH",
        signal: stopping.signal,
        headers: { ...TUS, "Content-Type": "application/offset+octet-stream", "Upload-Offset": String(offset) },
        body: data,
      });
      hash.update(data);
      hashed = end;
      const took = performance.now() - begun;
      if (took < BRISK_MS) length = Math.min(2 * length, LARGEST);
      else if (took > SLOW_MS) length = Math.max(length / 2, SMALLEST);
      offset = Number(response.headers.get("Upload-Offset"));
      if (offset < end) throw new Error("The service kept only a part.");
      onProgress();
    }
    await hashTo(hash, file, hashed, offset);
    this.#is("checking", offset);
    this.result = await post(`${this.address}/commit`, { sha256: hash.hex() });
  }

  async #create() {
    const { capture, camera, kind } = this.to;
    const response = await request(`/v1/captures/${capture}/uploads`, {
      method: "POST",
      signal: this.stopping.signal,
      headers: {
        ...TUS,
        "Upload-Length": String(this.file.size),
        "Upload-Metadata": Object.entries({ camera, kind, filename: this.file.name })
          .map(([key, value]) => `${key} ${base64(value)}`)
          .join(","),
      },
    });
    this.address = response.headers.get("Location");
    return 0;
  }

  async #offset() {
    const response = await request(this.address, { method: "HEAD", signal: this.stopping.signal, headers: TUS });
    if (Number(response.headers.get("Upload-Length")) !== this.file.size) throw new Problem(410, {});
    return Number(response.headers.get("Upload-Offset"));
  }

  #is(state, sent = this.sent) {
    Object.assign(this, { state, sent });
    this.dispatchEvent(new Event("change"));
  }
}

/** Sends a few files at once, the others after them. */
export class Queue {
  constructor() {
    this.waiting = [];
    this.running = 0;
  }

  add(upload) {
    this.waiting.push(upload);
    this.#next();
  }

  async #next() {
    if (this.running >= AT_ONCE || !this.waiting.length) return;
    const upload = this.waiting.shift();
    if (upload.state === "waiting") {
      this.running += 1;
      await upload.run();
      this.running -= 1;
    }
    this.#next();
  }
}

/** Whether trying again would change nothing. */
function isFinal(error) {
  if (!(error instanceof Problem)) return false;
  return error.status < 500 ? ![404, 408, 409, 410, 423, 425, 429].includes(error.status) : error.status === 507;
}

/** Goes on with a hash up to some byte of the file; returns that. */
async function hashTo(hash, file, start, end) {
  for (let at = start; at < end; at += READ) hash.update(await piece(file, at, Math.min(at + READ, end)));
  return end;
}

async function piece(file, start, end) {
  return new Uint8Array(await file.slice(start, end).arrayBuffer());
}

function base64(text) {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}
