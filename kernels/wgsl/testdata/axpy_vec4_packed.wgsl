@group(0) @binding(0) var<storage, read> b0: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> b1: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read_write> b2: array<vec2<u32>>;
struct Params {
  p0: i32,
  p1: f32,
  p2: i32,
}
@group(0) @binding(3) var<uniform> P: Params;
fn half_bits(x: f32) -> u32 {
  let sign = (bitcast<u32>(x) >> 16u) & 0x8000u;
  let b = bitcast<u32>(x) & 0x7fffffffu;
  if (b > 0x7f800000u) { return sign | 0x7e00u; }
  if (b >= 0x477ff000u) { return sign | 0x7c00u; }
  if (b < 0x38800000u) { return sign | u32(round(bitcast<f32>(b) * 16777216.0)); }
  return sign | (((b + 0xfffu + ((b >> 13u) & 1u)) >> 13u) - 0x1c000u);
}
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let gid = i32(wg.y * 32768u + wg.x);
  let lid = i32(local);
  let v0 = ((gid * 256i) + lid);
  if ((v0 < i32(u32(P.p0) / u32(4i)))) {
    let v1 = (i32(u32(P.p2) / u32(4i)) + v0);
    let v2 = vec4<f32>(unpack2x16float(b1[v1].x), unpack2x16float(b1[v1].y));
    let v3 = b0[v0];
    let v4 = fma(v2, vec4<f32>(P.p1), v3);
    {
      let x = v4;
      b2[v0] = vec2<u32>(half_bits(x.x) | (half_bits(x.y) << 16u), half_bits(x.z) | (half_bits(x.w) << 16u));
    }
  }
}
