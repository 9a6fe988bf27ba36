/** Reads what `recon4d.show.write_view` wrote. */

const FORMAT = "recon4d-view";
const VERSION = 1;
const TYPES = { float32: Float32Array, float16: Uint16Array };

/**
 * @param {string} folder address of the folder, ending in "/".
 * @param {(path: string) => Promise<Response>} fetcher gets a file of the folder, with whatever key that needs.
 * @param {(share: number) => void} onProgress share of the bytes that have come, 0 to 1.
 * @returns {Promise<object>} view.json, with `arrays` by name: {data, rows, columns}; float16 as its 16 bits.
 */
export async function readView(folder, fetcher = fetch, onProgress = () => {}) {
  const view = await (await got(fetcher, folder + "view.json")).json();
  if (view.format !== FORMAT) throw new Error("This is not a scene that the page can show.");
  if (view.version > VERSION) {
    throw new Error(`The scene's view is of version ${view.version}; this page reads up to ${VERSION}.`);
  }
  const bytes = await allBytes(await got(fetcher, folder + view.splats.file), view.splats.bytes, onProgress);
  view.arrays = {};
  for (const [name, { offset, type, shape }] of Object.entries(view.splats.arrays)) {
    const data = new TYPES[type](bytes.buffer, offset, shape[0] * shape[1]);
    view.arrays[name] = { data, rows: shape[0], columns: shape[1] };
  }
  return view;
}

async function got(fetcher, address) {
  const response = await fetcher(address);
  if (!response.ok) throw new Error(`${address} cannot be read: the server answered ${response.status}.`);
  return response;
}

async function allBytes(response, length, onProgress) {
  const bytes = new Uint8Array(length);
  let filled = 0;
  const reader = response.body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    if (filled + value.length > length) throw new Error("The scene's file is longer than it should be.");
    bytes.set(value, filled);
    filled += value.length;
    onProgress(filled / length);
  }
  if (filled < length) throw new Error("The scene's file came only in part; reload the page.");
  return bytes;
}
