@group(0) @binding(0) var<storage, read_write> b0: array<vec4<f32>>;
struct Params {
  p0: i32,
  p1: u32,
  p1h: u32,
  p2: u32,
  p2h: u32,
}
@group(0) @binding(1) var<uniform> P: Params;
fn mul_hi(a: u32, b: u32) -> u32 {
  let t = (a & 0xffffu) * (b & 0xffffu);
  let u = (a >> 16u) * (b & 0xffffu) + (t >> 16u);
  let v = (a & 0xffffu) * (b >> 16u) + (u & 0xffffu);
  return (a >> 16u) * (b >> 16u) + (u >> 16u) + (v >> 16u);
}
fn philox(ctr: vec4<u32>, key: vec2<u32>) -> vec4<u32> {
  var c = ctr;
  var k = key;
  for (var i = 0; i < 10; i += 1) {
    c = vec4<u32>(mul_hi(0xcd9e8d57u, c.z) ^ c.y ^ k.x, 0xcd9e8d57u * c.z,
                  mul_hi(0xd2511f53u, c.x) ^ c.w ^ k.y, 0xd2511f53u * c.x);
    k += vec2<u32>(0x9e3779b9u, 0xbb67ae85u);
  }
  return c;
}
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let gid = i32(wg.y * 32768u + wg.x);
  let lid = i32(local);
  let v0 = ((gid * 256i) + lid);
  if ((v0 < i32(u32(P.p0) / u32(4i)))) {
    let v1 = philox(vec4<u32>(bitcast<u32>(v0), 0u, P.p2, P.p2h), vec2<u32>(P.p1, P.p1h));
    let v2 = (v1 >> vec4<u32>(8u));
    let v3 = vec4<f32>(v2);
    let v4 = (v3 * vec4<f32>(5.9604645e-08f));
    b0[v0] = v4;
  }
}
