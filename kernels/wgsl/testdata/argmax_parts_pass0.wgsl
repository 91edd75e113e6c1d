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
var<workgroup> s1: array<i64, 64>;
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
  var v11: i64 = 9223372036854775807li;
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
    let v23 = i64(v15);
    let v24 = ((is_nan_f32(v20) & ((!is_nan_f32(v10)) | (v23 < v11))) | ((!is_nan_f32(v10)) & ((v10 < v20) | ((v20 == v10) & (v23 < v11)))));
    v10 = select(v10, v20, v24);
    v11 = select(v11, v23, v24);
    let v25 = i64(v16);
    let v26 = ((is_nan_f32(v22) & ((!is_nan_f32(v10)) | (v25 < v11))) | ((!is_nan_f32(v10)) & ((v10 < v22) | ((v22 == v10) & (v25 < v11)))));
    v10 = select(v10, v22, v26);
    v11 = select(v11, v25, v26);
  }
  let v27 = (v13 + v1);
  for (var v28: i32 = v27; v28 < v5; v28 += 8i) {
    let v29 = (v12 + v28);
    let v30 = (v9 + (v28 * P.p2));
    let v31 = b0[v30];
    let v32 = i64(v28);
    let v33 = ((is_nan_f32(v31) & ((!is_nan_f32(v10)) | (v32 < v11))) | ((!is_nan_f32(v10)) & ((v10 < v31) | ((v31 == v10) & (v32 < v11)))));
    v10 = select(v10, v31, v33);
    v11 = select(v11, v32, v33);
  }
  workgroupBarrier();
  s0[lid] = v10;
  s1[lid] = v11;
  workgroupBarrier();
  if ((v1 < 4i)) {
    let v34 = (lid + 32i);
    let v35 = s0[v34];
    let v36 = s1[v34];
    let v37 = ((is_nan_f32(v35) & ((!is_nan_f32(v10)) | (v36 < v11))) | ((!is_nan_f32(v10)) & ((v10 < v35) | ((v35 == v10) & (v36 < v11)))));
    v10 = select(v10, v35, v37);
    v11 = select(v11, v36, v37);
    s0[lid] = v10;
    s1[lid] = v11;
  }
  workgroupBarrier();
  if ((v1 < 2i)) {
    let v38 = (lid + 16i);
    let v39 = s0[v38];
    let v40 = s1[v38];
    let v41 = ((is_nan_f32(v39) & ((!is_nan_f32(v10)) | (v40 < v11))) | ((!is_nan_f32(v10)) & ((v10 < v39) | ((v39 == v10) & (v40 < v11)))));
    v10 = select(v10, v39, v41);
    v11 = select(v11, v40, v41);
    s0[lid] = v10;
    s1[lid] = v11;
  }
  workgroupBarrier();
  if ((v1 < 1i)) {
    let v42 = (lid + 8i);
    let v43 = s0[v42];
    let v44 = s1[v42];
    let v45 = ((is_nan_f32(v43) & ((!is_nan_f32(v10)) | (v44 < v11))) | ((!is_nan_f32(v10)) & ((v10 < v43) | ((v43 == v10) & (v44 < v11)))));
    v10 = select(v10, v43, v45);
    v11 = select(v11, v44, v45);
    s0[lid] = v10;
    s1[lid] = v11;
  }
  workgroupBarrier();
  let v46 = i32(u32(lid) % u32(8i));
  let v47 = s0[v46];
  let v48 = s1[v46];
  let v49 = (v8 & (v1 == 0i));
  if (v49) {
    let v50 = ((v2 * P.p0) + v9);
    let v51 = bitcast<u32>(v47);
    b2[v50] = v51;
    let v52 = (((4i + v2) * P.p0) + v9);
    let v53 = u32(v48);
    b2[v52] = v53;
    let v54 = (((8i + v2) * P.p0) + v9);
    let v55 = u32((v48 >> u32(32u)));
    b2[v54] = v55;
  }
}
