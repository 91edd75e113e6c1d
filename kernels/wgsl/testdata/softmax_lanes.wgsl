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
  var v6: f32 = 0f;
  let v7 = (v4 * P.p1);
  for (var v8: i32 = v0; v8 < P.p1; v8 += 16i) {
    let v9 = (v7 + v8);
    let v10 = b0[v9];
    let v11 = max_nan_f32(v5, v10);
    let v12 = select(v11, 0f, (v11 == from_bits(0xff800000u)));
    let v13 = (v5 - v12);
    let v14 = exp(v13);
    let v15 = (v6 * v14);
    let v16 = (v10 - v12);
    let v17 = exp(v16);
    let v18 = (v15 + v17);
    v6 = v18;
    v5 = v11;
  }
  var v19: f32 = v5;
  workgroupBarrier();
  s0[lid] = v5;
  workgroupBarrier();
  if ((v0 < 8i)) {
    let v20 = (lid + 8i);
    let v21 = s0[v20];
    v5 = max_nan_f32(v5, v21);
    s0[lid] = v5;
  }
  workgroupBarrier();
  if ((v0 < 4i)) {
    let v22 = (lid + 4i);
    let v23 = s0[v22];
    v5 = max_nan_f32(v5, v23);
    s0[lid] = v5;
  }
  workgroupBarrier();
  if ((v0 < 2i)) {
    let v24 = (lid + 2i);
    let v25 = s0[v24];
    v5 = max_nan_f32(v5, v25);
    s0[lid] = v5;
  }
  workgroupBarrier();
  if ((v0 < 1i)) {
    let v26 = (lid + 1i);
    let v27 = s0[v26];
    v5 = max_nan_f32(v5, v27);
    s0[lid] = v5;
  }
  workgroupBarrier();
  let v28 = (i32(u32(lid) / u32(16i)) * 16i);
  let v29 = s0[v28];
  let v30 = (v19 - v29);
  let v31 = exp(v30);
  let v32 = (v6 * v31);
  v6 = v32;
  workgroupBarrier();
  s0[lid] = v6;
  workgroupBarrier();
  if ((v0 < 8i)) {
    let v33 = (lid + 8i);
    let v34 = s0[v33];
    v6 = (v6 + v34);
    s0[lid] = v6;
  }
  workgroupBarrier();
  if ((v0 < 4i)) {
    let v35 = (lid + 4i);
    let v36 = s0[v35];
    v6 = (v6 + v36);
    s0[lid] = v6;
  }
  workgroupBarrier();
  if ((v0 < 2i)) {
    let v37 = (lid + 2i);
    let v38 = s0[v37];
    v6 = (v6 + v38);
    s0[lid] = v6;
  }
  workgroupBarrier();
  if ((v0 < 1i)) {
    let v39 = (lid + 1i);
    let v40 = s0[v39];
    v6 = (v6 + v40);
    s0[lid] = v6;
  }
  workgroupBarrier();
  let v41 = (i32(u32(lid) / u32(16i)) * 16i);
  let v42 = s0[v41];
  let v43 = (v4 * P.p1);
  for (var v44: i32 = v0; v44 < P.p1; v44 += 16i) {
    let v45 = (v43 + v44);
    let v46 = b0[v45];
    let v47 = (v46 - v29);
    let v48 = exp(v47);
    let v49 = (v48 / v42);
    if (v3) {
      b1[v45] = v49;
    }
  }
}
