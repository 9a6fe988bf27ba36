/** Tells what dropped files are. */

const LARGEST_JSON = 64 * 2 ** 20;
const BESIDE = /\.(npz|md|pdf|png|jpe?g|ds_store)$/i;

/**
 * @param {File[]} files
 * @returns {Promise<{calibrations: {file: File, content: object}[], videos: File[], times: File[]}>} what does not belong
 *   to a capture is left out.
 */
export async function sorted(files) {
  const found = { calibrations: [], videos: [], times: [] };
  for (const file of files) {
    const content = /\.(json|txt|csv)$/i.test(file.name) && file.size < LARGEST_JSON ? await parsed(file) : undefined;
    if (isCalibration(content)) found.calibrations.push({ file, content });
    else if (isTimes(content)) found.times.push(file);
    else if (content === undefined && !BESIDE.test(file.name)) found.videos.push(file);
  }
  return found;
}

/** What a JSON file holds, or a text file with one number a line; null when it is neither. */
async function parsed(file) {
  const text = await file.text();
  try {
    return JSON.parse(text);
  } catch {
    const lines = text.trim().split(/\s+/).map(Number);
    return lines.some(Number.isNaN) ? null : lines;
  }
}

function isCalibration(content) {
  return Array.isArray(content?.cameras);
}

function isTimes(content) {
  const list = content?.timestamps ?? content;
  return Array.isArray(list) && list.length > 0 && list.every((entry) => typeof entry === "number");
}
