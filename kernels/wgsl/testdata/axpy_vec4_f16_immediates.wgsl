enable f16;
@group(0) @binding(0) var<storage, read> b0: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> b1: array<vec4<f16>>;
@group(0) @binding(2) var<storage, read_write> b2: array<vec4<f16>>;
struct Params {
  p0: i32,
  p1: f32,
  p2: i32,
}
var<immediate> P: Params;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let gid = i32(wg.y * 32768u + wg.x);
  let lid = i32(local);
  let v0 = ((gid * 256i) + lid);
  if ((v0 < i32(u32(P.p0) / u32(4i)))) {
    let v1 = (i32(u32(P.p2) / u32(4i)) + v0);
    let v2 = vec4<f32>(b1[v1]);
    let v3 = b0[v0];
    let v4 = fma(v2, vec4<f32>(P.p1), v3);
    b2[v0] = vec4<f16>(v4);
  }
}
