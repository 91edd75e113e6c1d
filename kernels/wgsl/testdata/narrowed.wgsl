@group(0) @binding(0) var<storage, read> b0: array<f32>;
@group(0) @binding(1) var<storage, read_write> b1: array<f32>;
struct Params {
  p0: i32,
}
@group(0) @binding(2) var<uniform> P: Params;
fn half_bits(x: f32) -> u32 {
  let sign = (bitcast<u32>(x) >> 16u) & 0x8000u;
  let b = bitcast<u32>(x) & 0x7fffffffu;
  if (b > 0x7f800000u) { return sign | 0x7e00u; }
  if (b >= 0x477ff000u) { return sign | 0x7c00u; }
  if (b < 0x38800000u) { return sign | u32(round(bitcast<f32>(b) * 16777216.0)); }
  return sign | (((b + 0xfffu + ((b >> 13u) & 1u)) >> 13u) - 0x1c000u);
}
fn brain_bits(x: f32) -> u32 {
  let b = bitcast<u32>(x);
  if ((b & 0x7fffffffu) > 0x7f800000u) { return (b >> 16u) | 0x40u; }
  return (b + 0x7fffu + ((b >> 16u) & 1u)) >> 16u;
}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let gid = i32(wg.y * 32768u + wg.x);
  let lid = i32(local);
  let v0 = ((gid * 64i) + lid);
  if ((v0 < P.p0)) {
    let v1 = b0[v0];
    let v2 = unpack2x16float(half_bits(v1)).x;
    let v3 = (v2 * 0.3f);
    let v4 = bitcast<f32>(brain_bits(v3) << 16u);
    b1[v0] = v4;
  }
}
