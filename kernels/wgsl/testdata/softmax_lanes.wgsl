@group(0) @binding(0) var<storage, read> b0: array<f32>;
@group(0) @binding(1) var<storage, read_write> b1: array<f32>;
struct Params {
  p0: i32,
  p1: i32,
}
@group(0) @binding(2) var<uniform> P: Params;
var<workgroup> s0: array<f32, 64>;
fn from_bits(x: u32) -> f32 {
  return bitcast<f32>(x);
}
fn is_nan_f32(x: f32) -> bool {
  return (bitcast<u32>(x) & u32(0x7fffffffu)) > u32(0x7f800000u);
}
fn max_nan_f32(a: f32, b: f32) -> f32 {
  return select(select(max(a, b), b, is_nan_f32(b)), a, is_nan_f32(a));
}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let gid = i32(wg.y * 32768u + wg.x);
  let lid = i32(local);
  let v0 = i32(u32(lid) % u32(16i));
  let v1 = i32(u32(lid) / u32(16i));
  let v2 = ((gid * 4i) + v1);
  let v3 = (v2 < P.p0);
  let v4 = min(v2, (P.p0 - 1i));
  var v5: f32 = from_bits(0xff800000u);
  let v6 = (v4 * P.p1);
  for (var v7: i32 = v0; v7 < P.p1; v7 += 16i) {
    let v8 = (v6 + v7);
    let v9 = b0[v8];
    v5 = max_nan_f32(v5, v9);
  }
  workgroupBarrier();
  s0[lid] = v5;
  workgroupBarrier();
  if ((v0 < 8i)) {
    let v10 = (lid + 8i);
    let v11 = s0[v10];
    v5 = max_nan_f32(v5, v11);
    s0[lid] = v5;
  }
  workgroupBarrier();
  if ((v0 < 4i)) {
    let v12 = (lid + 4i);
    let v13 = s0[v12];
    v5 = max_nan_f32(v5, v13);
    s0[lid] = v5;
  }
  workgroupBarrier();
  if ((v0 < 2i)) {
    let v14 = (lid + 2i);
    let v15 = s0[v14];
    v5 = max_nan_f32(v5, v15);
    s0[lid] = v5;
  }
  workgroupBarrier();
  if ((v0 < 1i)) {
    let v16 = (lid + 1i);
    let v17 = s0[v16];
    v5 = max_nan_f32(v5, v17);
    s0[lid] = v5;
  }
  workgroupBarrier();
  let v18 = (i32(u32(lid) / u32(16i)) * 16i);
  let v19 = s0[v18];
  var v20: f32 = 0f;
  let v21 = (v4 * P.p1);
  for (var v22: i32 = 0i; v22 < P.p1; v22 += 512i) {
    var v23: f32 = 0f;
    let v24 = min(P.p1, (v22 + 512i));
    let v25 = (v22 + v0);
    for (var v26: i32 = v25; v26 < v24; v26 += 16i) {
      let v27 = (v21 + v26);
      let v28 = b0[v27];
      let v29 = (v28 - v19);
      let v30 = exp(v29);
      v23 = (v23 + v30);
    }
    v20 = (v20 + v23);
  }
  workgroupBarrier();
  s0[lid] = v20;
  workgroupBarrier();
  if ((v0 < 8i)) {
    let v31 = (lid + 8i);
    let v32 = s0[v31];
    v20 = (v20 + v32);
    s0[lid] = v20;
  }
  workgroupBarrier();
  if ((v0 < 4i)) {
    let v33 = (lid + 4i);
    let v34 = s0[v33];
    v20 = (v20 + v34);
    s0[lid] = v20;
  }
  workgroupBarrier();
  if ((v0 < 2i)) {
    let v35 = (lid + 2i);
    let v36 = s0[v35];
    v20 = (v20 + v36);
    s0[lid] = v20;
  }
  workgroupBarrier();
  if ((v0 < 1i)) {
    let v37 = (lid + 1i);
    let v38 = s0[v37];
    v20 = (v20 + v38);
    s0[lid] = v20;
  }
  workgroupBarrier();
  let v39 = (i32(u32(lid) / u32(16i)) * 16i);
  let v40 = s0[v39];
  let v41 = (v4 * P.p1);
  for (var v42: i32 = v0; v42 < P.p1; v42 += 16i) {
    let v43 = (v41 + v42);
    let v44 = b0[v43];
    let v45 = (v44 - v19);
    let v46 = exp(v45);
    let v47 = (v46 / v40);
    if (v3) {
      b1[v43] = v47;
    }
  }
}
