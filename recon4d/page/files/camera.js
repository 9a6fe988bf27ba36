/** Cameras with the intrinsics and poses of the rig. */

import * as THREE from "three";

const NEAR_M = 0.01;
const FAR_M = 1000;

/** From OpenCV's camera axes (y down, z forward) to those of the browser's (y up, z back). */
const TURNED = new THREE.Matrix4().makeScale(1, -1, -1);

/**
 * A pinhole of given focal lengths and principal point. Its picture lies in the middle of the canvas, as large as fits;
 * where the canvas is wider or higher, more of the scene is seen around it.
 */
export class PinholeCamera extends THREE.PerspectiveCamera {
  constructor(lens) {
    super(50, 1, NEAR_M, FAR_M);
    this.up.set(0, 0, 1);
    this.lens = lens;
    this.canvas = { width: lens.width, height: lens.height };
    this.updateProjectionMatrix();
  }

  setLens(lens) {
    this.lens = lens;
    this.updateProjectionMatrix();
  }

  setCanvas(width, height) {
    this.canvas = { width, height };
    this.updateProjectionMatrix();
  }

  /** Where the lens' own picture lies on the canvas, in its pixels. */
  get frame() {
    const { width, height } = this.canvas;
    const scale = Math.min(width / this.lens.width, height / this.lens.height);
    const size = { width: this.lens.width * scale, height: this.lens.height * scale };
    return { scale, ...size, left: (width - size.width) / 2, top: (height - size.height) / 2 };
  }

  updateProjectionMatrix() {
    if (!this.lens) return; // three's own constructor asks too early.
    const { width, height } = this.canvas;
    const { scale, left, top } = this.frame;
    const [fx, fy] = [this.lens.fx * scale, this.lens.fy * scale];
    const [cx, cy] = [left + this.lens.cx * scale, top + this.lens.cy * scale];
    const depth = FAR_M - NEAR_M;
    this.projectionMatrix.set(
      ...[(2 * fx) / width, 0, 1 - (2 * cx) / width, 0],
      ...[0, (2 * fy) / height, (2 * cy) / height - 1, 0],
      ...[0, 0, -(FAR_M + NEAR_M) / depth, (-2 * FAR_M * NEAR_M) / depth],
      ...[0, 0, -1, 0],
    );
    this.projectionMatrixInverse.copy(this.projectionMatrix).invert();
    this.fov = (2 * Math.atan(height / (2 * fy)) * 180) / Math.PI; // Dragging is scaled by it.
  }
}

/** Lens and pose of a camera in view.json. */
export function rigCamera({ name, width, height, K, T_cam_world: T, exposure }) {
  const toWorld = new THREE.Matrix4().set(...T.flat()).invert().multiply(TURNED);
  const [position, quaternion, scale] = [new THREE.Vector3(), new THREE.Quaternion(), new THREE.Vector3()];
  toWorld.decompose(position, quaternion, scale);
  return {
    name,
    exposure,
    lens: { width, height, fx: K[0][0], fy: K[1][1], cx: K[0][2], cy: K[1][2] },
    position,
    quaternion,
  };
}

/** The same lens with the principal point in the middle. */
export function centred(lens) {
  return { ...lens, cx: lens.width / 2, cy: lens.height / 2 };
}

/** Between two lenses: of a size of the second. */
export function mixedLens(from, to, share) {
  const mixed = { ...to };
  for (const [key, side] of Object.entries({ fx: "width", fy: "height", cx: "width", cy: "height" })) {
    mixed[key] = to[side] * ((1 - share) * (from[key] / from[side]) + share * (to[key] / to[side]));
  }
  return mixed;
}

/** Lines that show where the rig's cameras stand and what they see, `reach` metres ahead. */
export function rigLines(cameras, reach, colour) {
  const points = [];
  for (const { lens, position, quaternion } of cameras) {
    const corners = [
      [0, 0],
      [lens.width, 0],
      [lens.width, lens.height],
      [0, lens.height],
    ].map(([u, v]) =>
      new THREE.Vector3((u - lens.cx) / lens.fx, -(v - lens.cy) / lens.fy, -1)
        .multiplyScalar(reach)
        .applyQuaternion(quaternion)
        .add(position),
    );
    corners.forEach((corner, k) => points.push(position, corner, corner, corners[(k + 1) % 4]));
  }
  const geometry = new THREE.BufferGeometry().setFromPoints(points);
  return new THREE.LineSegments(geometry, new THREE.LineBasicMaterial({ color: colour }));
}
