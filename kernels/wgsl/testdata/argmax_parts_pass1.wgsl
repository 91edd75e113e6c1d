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
  let v2 = ((gid * 8i) + v0);
  let v3 = (v2 < P.p0);
  let v4 = min(v2, (P.p0 - 1i));
  var v5: f32 = from_bits(0xff800000u);
  var v6: i64 = 9223372036854775807li;
  for (var v7: i32 = v1; v7 < 4i; v7 += 8i) {
    let v8 = ((v7 * P.p0) + v4);
    let v9 = b2[v8];
    let v10 = bitcast<f32>(v9);
    let v11 = (((4i + v7) * P.p0) + v4);
    let v12 = b2[v11];
    let v13 = (((8i + v7) * P.p0) + v4);
    let v14 = b2[v13];
    let v15 = (i64(u64(v12)) | (i64(u64(v14)) << u32(32u)));
    let v16 = ((is_nan_f32(v10) & ((!is_nan_f32(v5)) | (v15 < v6))) | ((!is_nan_f32(v5)) & ((v5 < v10) | ((v10 == v5) & (v15 < v6)))));
    v5 = select(v5, v10, v16);
    v6 = select(v6, v15, v16);
  }
  workgroupBarrier();
  s0[lid] = v5;
  s1[lid] = v6;
  workgroupBarrier();
  if ((v1 < 4i)) {
    let v17 = (lid + 32i);
    let v18 = s0[v17];
    let v19 = s1[v17];
    let v20 = ((is_nan_f32(v18) & ((!is_nan_f32(v5)) | (v19 < v6))) | ((!is_nan_f32(v5)) & ((v5 < v18) | ((v18 == v5) & (v19 < v6)))));
    v5 = select(v5, v18, v20);
    v6 = select(v6, v19, v20);
    s0[lid] = v5;
    s1[lid] = v6;
  }
  workgroupBarrier();
  if ((v1 < 2i)) {
    let v21 = (lid + 16i);
    let v22 = s0[v21];
    let v23 = s1[v21];
    let v24 = ((is_nan_f32(v22) & ((!is_nan_f32(v5)) | (v23 < v6))) | ((!is_nan_f32(v5)) & ((v5 < v22) | ((v22 == v5) & (v23 < v6)))));
    v5 = select(v5, v22, v24);
    v6 = select(v6, v23, v24);
    s0[lid] = v5;
    s1[lid] = v6;
  }
  workgroupBarrier();
  if ((v1 < 1i)) {
    let v25 = (lid + 8i);
    let v26 = s0[v25];
    let v27 = s1[v25];
    let v28 = ((is_nan_f32(v26) & ((!is_nan_f32(v5)) | (v27 < v6))) | ((!is_nan_f32(v5)) & ((v5 < v26) | ((v26 == v5) & (v27 < v6)))));
    v5 = select(v5, v26, v28);
    v6 = select(v6, v27, v28);
    s0[lid] = v5;
    s1[lid] = v6;
  }
  workgroupBarrier();
  let v29 = i32(u32(lid) % u32(8i));
  let v30 = s0[v29];
  let v31 = s1[v29];
  let v32 = (v3 & (v1 == 0i));
  if (v32) {
    b1[v4] = v31;
  }
}
