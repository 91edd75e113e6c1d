@group(0) @binding(0) var<storage, read> b0: array<f32>;
@group(0) @binding(1) var<storage, read_write> b1: array<i64>;
@group(0) @binding(2) var<storage, read_write> b2: array<u32>;
struct Params {
  p0: i32,
  p1: i32,
  p2: i32,
}
@group(0) @binding(3) var<uniform> P: Params;
var<workgroup> s0: array<f32, 64>;
var<workgroup> s1: array<i32, 64>;
fn from_bits(x: u32) -> f32 {
  return bitcast<f32>(x);
}
fn is_nan_f32(x: f32) -> bool {
  return (bitcast<u32>(x) & u32(0x7fffffffu)) > u32(0x7f800000u);
}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let gid = i32(wg.y * 32768u + wg.x);
  let lid = i32(local);
  let v0 = i32(u32(lid) % u32(8i));
  let v1 = i32(u32(lid) / u32(8i));
  let v2 = i32(u32(gid) % u32(4i));
  let v3 = i32(u32((P.p1 + 3i)) / u32(4i));
  let v4 = min(P.p1, (v2 * v3));
  let v5 = min(P.p1, (v4 + v3));
  let v6 = i32(u32(gid) / u32(4i));
  let v7 = ((v6 * 8i) + v0);
  let v8 = (v7 < P.p0);
  let v9 = min(v7, (P.p0 - 1i));
  var v10: f32 = from_bits(0xff800000u);
  var v11: i32 = 2147483647i;
  let v12 = (v9 * P.p1);
  let v13 = (v4 + (i32(u32((v5 - v4)) / u32(16i)) * 16i));
  let v14 = (v4 + v1);
  for (var v15: i32 = v14; v15 < v13; v15 += 16i) {
    let v16 = (v15 + 8i);
    let v17 = (v12 + v15);
    let v18 = (v12 + v16);
    let v19 = (v9 + (v15 * P.p2));
    let v20 = b0[v19];
    let v21 = (v9 + (v16 * P.p2));
    let v22 = b0[v21];
    let v23 = ((is_nan_f32(v20) & ((!is_nan_f32(v10)) | (v15 < v11))) | ((!is_nan_f32(v10)) & ((v10 < v20) | ((v20 == v10) & (v15 < v11)))));
    v10 = select(v10, v20, v23);
    v11 = select(v11, v15, v23);
    let v24 = ((is_nan_f32(v22) & ((!is_nan_f32(v10)) | (v16 < v11))) | ((!is_nan_f32(v10)) & ((v10 < v22) | ((v22 == v10) & (v16 < v11)))));
    v10 = select(v10, v22, v24);
    v11 = select(v11, v16, v24);
  }
  let v25 = (v13 + v1);
  for (var v26: i32 = v25; v26 < v5; v26 += 8i) {
    let v27 = (v12 + v26);
    let v28 = (v9 + (v26 * P.p2));
    let v29 = b0[v28];
    let v30 = ((is_nan_f32(v29) & ((!is_nan_f32(v10)) | (v26 < v11))) | ((!is_nan_f32(v10)) & ((v10 < v29) | ((v29 == v10) & (v26 < v11)))));
    v10 = select(v10, v29, v30);
    v11 = select(v11, v26, v30);
  }
  workgroupBarrier();
  s0[lid] = v10;
  s1[lid] = v11;
  workgroupBarrier();
  if ((v1 < 4i)) {
    let v31 = (lid + 32i);
    let v32 = s0[v31];
    let v33 = s1[v31];
    let v34 = ((is_nan_f32(v32) & ((!is_nan_f32(v10)) | (v33 < v11))) | ((!is_nan_f32(v10)) & ((v10 < v32) | ((v32 == v10) & (v33 < v11)))));
    v10 = select(v10, v32, v34);
    v11 = select(v11, v33, v34);
    s0[lid] = v10;
    s1[lid] = v11;
  }
  workgroupBarrier();
  if ((v1 < 2i)) {
    let v35 = (lid + 16i);
    let v36 = s0[v35];
    let v37 = s1[v35];
    let v38 = ((is_nan_f32(v36) & ((!is_nan_f32(v10)) | (v37 < v11))) | ((!is_nan_f32(v10)) & ((v10 < v36) | ((v36 == v10) & (v37 < v11)))));
    v10 = select(v10, v36, v38);
    v11 = select(v11, v37, v38);
    s0[lid] = v10;
    s1[lid] = v11;
  }
  workgroupBarrier();
  if ((v1 < 1i)) {
    let v39 = (lid + 8i);
    let v40 = s0[v39];
    let v41 = s1[v39];
    let v42 = ((is_nan_f32(v40) & ((!is_nan_f32(v10)) | (v41 < v11))) | ((!is_nan_f32(v10)) & ((v10 < v40) | ((v40 == v10) & (v41 < v11)))));
    v10 = select(v10, v40, v42);
    v11 = select(v11, v41, v42);
    s0[lid] = v10;
    s1[lid] = v11;
  }
  workgroupBarrier();
  let v43 = i32(u32(lid) % u32(8i));
  let v44 = s0[v43];
  let v45 = s1[v43];
  let v46 = select(i64(v45), 9223372036854775807li, (v45 == 2147483647i));
  let v47 = (v8 & (v1 == 0i));
  if (v47) {
    let v48 = ((v2 * P.p0) + v9);
    let v49 = bitcast<u32>(v44);
    b2[v48] = v49;
    let v50 = (((4i + v2) * P.p0) + v9);
    let v51 = u32(v46);
    b2[v50] = v51;
    let v52 = (((8i + v2) * P.p0) + v9);
    let v53 = u32((v46 >> u32(32u)));
    b2[v52] = v53;
  }
}
