/** SHA-256 of a file piece by piece: the browser's own needs all of it in memory, and a secure address. */

const fractions = (root, count) => {
  const primes = [];
  for (let n = 2; primes.length < count; n += 1) if (primes.every((p) => n % p)) primes.push(n);
  return Uint32Array.from(primes, (p) => (root(p) % 1) * 2 ** 32);
};
const ROUNDS = Int32Array.from(fractions(Math.cbrt, 64));
const START = Int32Array.from(fractions(Math.sqrt, 8));
const BLOCK = 64;

export class Sha256 {
  constructor() {
    this.state = START.slice();
    this.words = new Int32Array(64);
    this.rest = new Uint8Array(BLOCK);
    this.length = 0;
  }

  /** @param {Uint8Array} bytes */
  update(bytes) {
    let start = 0;
    const held = this.length % BLOCK;
    this.length += bytes.length;
    if (held) {
      start = Math.min(BLOCK - held, bytes.length);
      this.rest.set(bytes.subarray(0, start), held);
      if (held + start < BLOCK) return this;
      this.#block(this.rest, 0);
    }
    for (; start + BLOCK <= bytes.length; start += BLOCK) this.#block(bytes, start);
    this.rest.set(bytes.subarray(start));
    return this;
  }

  /** The hash in hexadecimal; nothing can be added afterwards. */
  hex() {
    const bits = this.length * 8;
    const held = this.length % BLOCK;
    const end = new Uint8Array((held < 56 ? 1 : 2) * BLOCK - held);
    end[0] = 0x80;
    const view = new DataView(end.buffer);
    view.setUint32(end.length - 8, Math.floor(bits / 2 ** 32));
    view.setUint32(end.length - 4, bits % 2 ** 32);
    this.update(end);
    return Array.from(this.state, (word) => (word >>> 0).toString(16).padStart(8, "0")).join("");
  }

  #block(bytes, start) {
    const w = this.words;
    for (let i = 0; i < 16; i += 1) {
      const j = start + 4 * i;
      w[i] = (bytes[j] << 24) | (bytes[j + 1] << 16) | (bytes[j + 2] << 8) | bytes[j + 3];
    }
    for (let i = 16; i < 64; i += 1) {
      const x = w[i - 15];
      const y = w[i - 2];
      const low = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
      const high = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
      w[i] = (w[i - 16] + low + w[i - 7] + high) | 0;
    }
    const { state } = this;
    let a = state[0];
    let b = state[1];
    let c = state[2];
    let d = state[3];
    let e = state[4];
    let f = state[5];
    let g = state[6];
    let k = state[7];
    for (let i = 0; i < 64; i += 1) {
      const high = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
      const low = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
      const first = (k + high + ((e & f) ^ (~e & g)) + ROUNDS[i] + w[i]) | 0;
      const second = (low + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      k = g;
      g = f;
      f = e;
      e = (d + first) | 0;
      d = c;
      c = b;
      b = a;
      a = (first + second) | 0;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
    state[5] += f;
    state[6] += g;
    state[7] += k;
  }
}
