/**
 * The scene's Gaussians as Spark draws them. All of them lie in textures; a program on the GPU moves and fades the dynamic
 * ones to the present instant, as the model does:
 *
 *   mean(t)     = mean + velocity (t - centre)
 *   opacity(t)  = opacity                                                  for |t - centre| <= radius
 *                 opacity exp(-((|t - centre| - radius) / tail)^2 / 2)     otherwise
 *
 * and evaluates the spherical harmonics towards the camera. What is below 1/255 is not drawn.
 */

import * as THREE from "three";
import { SplatGenerator, dyno } from "@sparkjsdev/spark";

const WIDTH = 2048;
const CUT = 1 / 255;
/** Controls that are at rest still move the camera by rounding; that is no reason to draw again. */
const STILL_M = 1e-6;

/** Normalisation of the real harmonics, in the order and with the signs of the usual splat files. */
const BASIS = [
  "0.28209479177387814",
  "-0.4886025119029199 * d.y",
  "0.4886025119029199 * d.z",
  "-0.4886025119029199 * d.x",
  "1.0925484305920792 * d.x * d.y",
  "-1.0925484305920792 * d.y * d.z",
  "0.31539156525252005 * (2.0 * d.z * d.z - d.x * d.x - d.y * d.y)",
  "-1.0925484305920792 * d.x * d.z",
  "0.5462742152960396 * (d.x * d.x - d.y * d.y)",
  "-0.5900435899266435 * d.y * (3.0 * d.x * d.x - d.y * d.y)",
  "2.890611442640554 * d.x * d.y * d.z",
  "-0.4570457994644658 * d.y * (4.0 * d.z * d.z - d.x * d.x - d.y * d.y)",
  "0.3731763325901154 * d.z * (2.0 * d.z * d.z - 3.0 * d.x * d.x - 3.0 * d.y * d.y)",
  "-0.4570457994644658 * d.x * (4.0 * d.z * d.z - d.x * d.x - d.y * d.y)",
  "1.445305721320277 * d.z * (d.x * d.x - d.y * d.y)",
  "-0.5900435899266435 * d.x * (d.x * d.x - 3.0 * d.y * d.y)",
];

export class InstantSplats extends SplatGenerator {
  /** @param {object} view what `readView` returned. */
  constructor(view) {
    const { centres, shapes, colours, lives } = view.arrays;
    super({ numSplats: centres.rows, update: ({ viewToWorld }) => this.#follow(viewToWorld) });
    this.textures = [centres, shapes, colours, lives].map(texture);
    this.instant = new dyno.DynoFloat({ value: 0 });
    this.exposureFactor = new dyno.DynoFloat({ value: 1 });
    this.eye = new dyno.DynoVec3({ value: new THREE.Vector3().setScalar(Infinity) });
    this.generator = this.#program(view.counts.static, (view.sh_degree + 1) ** 2);
  }

  /** Seconds on the capture's clock. */
  get time() {
    return this.instant.value;
  }

  set time(seconds) {
    this.#change(this.instant, seconds);
  }

  /** Factor on all colours: a camera's exposure. */
  set exposure(factor) {
    this.#change(this.exposureFactor, factor);
  }

  dispose() {
    for (const each of this.textures) each.dispose();
  }

  #change(uniform, value) {
    if (uniform.value === value) return;
    uniform.value = value;
    this.updateVersion();
  }

  #follow(viewToWorld) {
    const eye = new THREE.Vector3().setFromMatrixPosition(viewToWorld);
    if (eye.distanceTo(this.eye.value) < STILL_M) return;
    this.eye.value.copy(eye);
    this.updateVersion();
  }

  #program(staticCount, coefficients) {
    const texels = Math.ceil((3 * coefficients) / 4);
    const sampler = (value) => new dyno.DynoSampler2D({ value });
    const [centres, shapes, colours, lives] = this.textures.map(sampler);
    return new dyno.Dyno({
      inTypes: {
        index: "int",
        centres: "sampler2D",
        shapes: "sampler2D",
        colours: "sampler2D",
        lives: "sampler2D",
        time: "float",
        exposure: "float",
        eye: "vec3",
      },
      outTypes: { gsplat: dyno.Gsplat },
      inputs: { centres, shapes, colours, lives, time: this.instant, exposure: this.exposureFactor, eye: this.eye },
      globals: () => [dyno.defineGsplat, TEXEL],
      statements: ({ inputs: i, outputs: { gsplat } }) =>
        dyno.unindentLines(`
          vec4 centre = recon4dTexel(${i.centres}, ${i.index});
          vec4 quaternion = recon4dTexel(${i.shapes}, 2 * ${i.index});
          vec3 scales = recon4dTexel(${i.shapes}, 2 * ${i.index} + 1).xyz;
          if (${i.index} >= ${staticCount}) {
            int row = 2 * (${i.index} - ${staticCount});
            vec4 motion = recon4dTexel(${i.lives}, row);
            vec2 span = recon4dTexel(${i.lives}, row + 1).xy;
            float since = ${i.time} - motion.w;
            float beyond = max(abs(since) - span.x, 0.0) / span.y;
            centre.xyz += motion.xyz * since;
            centre.w *= exp(-0.5 * beyond * beyond);
          }
          vec4 c[${texels}];
          for (int k = 0; k < ${texels}; ++k) c[k] = recon4dTexel(${i.colours}, ${texels} * ${i.index} + k);
          vec3 d = normalize(centre.xyz - ${i.eye});
          vec3 rgb = ${harmonics(coefficients)} + 0.5;
          ${gsplat}.center = centre.xyz;
          ${gsplat}.flags = centre.w >= ${CUT.toFixed(9)} ? GSPLAT_FLAG_ACTIVE : 0u;
          ${gsplat}.scales = scales;
          ${gsplat}.index = ${i.index};
          ${gsplat}.quaternion = normalize(quaternion);
          ${gsplat}.rgba = vec4(max(rgb, 0.0) * ${i.exposure}, centre.w);
        `),
    });
  }
}

const TEXEL = `
vec4 recon4dTexel(sampler2D table, int i) {
  return texelFetch(table, ivec2(i % ${WIDTH}, i / ${WIDTH}), 0);
}
`;

function harmonics(coefficients) {
  const float = (j) => `c[${j >> 2}].${"xyzw"[j & 3]}`;
  const terms = BASIS.slice(0, coefficients).map(
    (basis, k) => `(${basis}) * vec3(${float(3 * k)}, ${float(3 * k + 1)}, ${float(3 * k + 2)})`,
  );
  return terms.join(" + ");
}

/** Rows of whole RGBA texels, one after the other, in a texture of fixed width. */
function texture({ data, rows, columns }) {
  const texels = (rows * columns) / 4;
  const height = Math.max(1, Math.ceil(texels / WIDTH));
  const padded = new data.constructor(4 * WIDTH * height);
  padded.set(data);
  const type = data instanceof Float32Array ? THREE.FloatType : THREE.HalfFloatType;
  const made = new THREE.DataTexture(padded, WIDTH, height, THREE.RGBAFormat, type);
  made.needsUpdate = true;
  return made;
}
