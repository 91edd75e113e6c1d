@group(0) @binding(0) var<storage, read> b0: array<f32>;
@group(0) @binding(1) var<storage, read_write> b1: array<f32>;
struct Params {
  p0: i32,
  p1: i32,
  p2: i32,
}
@group(0) @binding(2) var<uniform> P: Params;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let gid = i32(wg.y * 32768u + wg.x);
  let lid = i32(local);
  let v0 = ((gid * 64i) + lid);
  if ((v0 < P.p0)) {
    let v1 = (v0 * P.p2);
    var v2: f32 = 0f;
    let v3 = (v0 * P.p1);
    for (var v4: i32 = 0i; v4 < P.p1; v4 += 1i) {
      let v5 = (v3 + v4);
      let v6 = (v1 + v4);
      let v7 = b0[v6];
      v2 = (v2 + v7);
      b1[v5] = v2;
    }
  }
}
