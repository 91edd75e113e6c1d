@group(0) @binding(0) var<storage, read> b0: array<f32>;
@group(0) @binding(1) var<storage, read_write> b1: array<f32>;
struct Params {
  p0: i32,
  p1: i32,
  p2: i32,
}
@group(0) @binding(2) var<uniform> P: Params;
var<workgroup> s0: array<f32, 64>;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let gid = i32(wg.y * 32768u + wg.x);
  let lid = i32(local);
  let v0 = i32(u32(lid) % u32(16i));
  let v1 = i32(u32(lid) / u32(16i));
  let v2 = ((gid * 4i) + v1);
  let v3 = (v2 < P.p0);
  let v4 = min(v2, (P.p0 - 1i));
  let v5 = (v4 * P.p2);
  var v6: f32 = 0f;
  let v7 = (v4 * P.p1);
  for (var v8: i32 = 0i; v8 < P.p1; v8 += 16i) {
    let v9 = (v8 + v0);
    let v10 = (v9 < P.p1);
    let v11 = min(v9, (P.p1 - 1i));
    let v12 = (v7 + v11);
    var v13: f32 = 0f;
    let v14 = (v5 + v11);
    let v15 = b0[v14];
    v13 = select(v13, v15, v10);
    workgroupBarrier();
    s0[lid] = v13;
    workgroupBarrier();
    if ((1i <= v0)) {
      let v16 = (lid - 1i);
      let v17 = s0[v16];
      v13 = (v13 + v17);
    }
    workgroupBarrier();
    s0[lid] = v13;
    workgroupBarrier();
    if ((2i <= v0)) {
      let v18 = (lid - 2i);
      let v19 = s0[v18];
      v13 = (v13 + v19);
    }
    workgroupBarrier();
    s0[lid] = v13;
    workgroupBarrier();
    if ((4i <= v0)) {
      let v20 = (lid - 4i);
      let v21 = s0[v20];
      v13 = (v13 + v21);
    }
    workgroupBarrier();
    s0[lid] = v13;
    workgroupBarrier();
    if ((8i <= v0)) {
      let v22 = (lid - 8i);
      let v23 = s0[v22];
      v13 = (v13 + v23);
    }
    v13 = (v13 + v6);
    let v24 = (v3 & v10);
    if (v24) {
      b1[v12] = v13;
    }
    workgroupBarrier();
    s0[lid] = v13;
    workgroupBarrier();
    let v25 = ((i32(u32(lid) / u32(16i)) * 16i) + 15i);
    v6 = s0[v25];
  }
}
