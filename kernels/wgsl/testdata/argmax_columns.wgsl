@group(0) @binding(0) var<storage, read> b0: array<f32>;
@group(0) @binding(1) var<storage, read_write> b1: array<i64>;
struct Params {
  p0: i32,
  p1: i32,
  p2: i32,
}
@group(0) @binding(2) var<uniform> P: Params;
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
  let v7 = (v4 * P.p1);
  for (var v8: i32 = v1; v8 < P.p1; v8 += 8i) {
    let v9 = (v7 + v8);
    let v10 = (v4 + (v8 * P.p2));
    let v11 = b0[v10];
    let v12 = i64(v8);
    let v13 = ((is_nan_f32(v11) & ((!is_nan_f32(v5)) | (v12 < v6))) | ((!is_nan_f32(v5)) & ((v5 < v11) | ((v11 == v5) & (v12 < v6)))));
    v5 = select(v5, v11, v13);
    v6 = select(v6, v12, v13);
  }
  workgroupBarrier();
  s0[lid] = v5;
  s1[lid] = v6;
  workgroupBarrier();
  if ((v1 < 4i)) {
    let v14 = (lid + 32i);
    let v15 = s0[v14];
    let v16 = s1[v14];
    let v17 = ((is_nan_f32(v15) & ((!is_nan_f32(v5)) | (v16 < v6))) | ((!is_nan_f32(v5)) & ((v5 < v15) | ((v15 == v5) & (v16 < v6)))));
    v5 = select(v5, v15, v17);
    v6 = select(v6, v16, v17);
    s0[lid] = v5;
    s1[lid] = v6;
  }
  workgroupBarrier();
  if ((v1 < 2i)) {
    let v18 = (lid + 16i);
    let v19 = s0[v18];
    let v20 = s1[v18];
    let v21 = ((is_nan_f32(v19) & ((!is_nan_f32(v5)) | (v20 < v6))) | ((!is_nan_f32(v5)) & ((v5 < v19) | ((v19 == v5) & (v20 < v6)))));
    v5 = select(v5, v19, v21);
    v6 = select(v6, v20, v21);
    s0[lid] = v5;
    s1[lid] = v6;
  }
  workgroupBarrier();
  if ((v1 < 1i)) {
    let v22 = (lid + 8i);
    let v23 = s0[v22];
    let v24 = s1[v22];
    let v25 = ((is_nan_f32(v23) & ((!is_nan_f32(v5)) | (v24 < v6))) | ((!is_nan_f32(v5)) & ((v5 < v23) | ((v23 == v5) & (v24 < v6)))));
    v5 = select(v5, v23, v25);
    v6 = select(v6, v24, v25);
    s0[lid] = v5;
    s1[lid] = v6;
  }
  workgroupBarrier();
  let v26 = i32(u32(lid) % u32(8i));
  let v27 = s0[v26];
  let v28 = s1[v26];
  let v29 = (v3 & (v1 == 0i));
  if (v29) {
    b1[v4] = v28;
  }
}
