@group(0) @binding(0) var<storage, read> b0: array<f32>;
@group(0) @binding(1) var<storage, read_write> b1: array<i64>;
struct Params {
  p0: i32,
  p1: i32,
  p2: i32,
}
@group(0) @binding(2) var<uniform> P: Params;
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
  let v2 = ((gid * 8i) + v0);
  let v3 = (v2 < P.p0);
  let v4 = min(v2, (P.p0 - 1i));
  var v5: f32 = from_bits(0xff800000u);
  var v6: i32 = 2147483647i;
  let v7 = (v4 * P.p1);
  for (var v8: i32 = v1; v8 < P.p1; v8 += 8i) {
    let v9 = (v7 + v8);
    let v10 = (v4 + (v8 * P.p2));
    let v11 = b0[v10];
    let v12 = ((is_nan_f32(v11) & ((!is_nan_f32(v5)) | (v8 < v6))) | ((!is_nan_f32(v5)) & ((v5 < v11) | ((v11 == v5) & (v8 < v6)))));
    v5 = select(v5, v11, v12);
    v6 = select(v6, v8, v12);
  }
  workgroupBarrier();
  s0[lid] = v5;
  s1[lid] = v6;
  workgroupBarrier();
  if ((v1 < 4i)) {
    let v13 = (lid + 32i);
    let v14 = s0[v13];
    let v15 = s1[v13];
    let v16 = ((is_nan_f32(v14) & ((!is_nan_f32(v5)) | (v15 < v6))) | ((!is_nan_f32(v5)) & ((v5 < v14) | ((v14 == v5) & (v15 < v6)))));
    v5 = select(v5, v14, v16);
    v6 = select(v6, v15, v16);
    s0[lid] = v5;
    s1[lid] = v6;
  }
  workgroupBarrier();
  if ((v1 < 2i)) {
    let v17 = (lid + 16i);
    let v18 = s0[v17];
    let v19 = s1[v17];
    let v20 = ((is_nan_f32(v18) & ((!is_nan_f32(v5)) | (v19 < v6))) | ((!is_nan_f32(v5)) & ((v5 < v18) | ((v18 == v5) & (v19 < v6)))));
    v5 = select(v5, v18, v20);
    v6 = select(v6, v19, v20);
    s0[lid] = v5;
    s1[lid] = v6;
  }
  workgroupBarrier();
  if ((v1 < 1i)) {
    let v21 = (lid + 8i);
    let v22 = s0[v21];
    let v23 = s1[v21];
    let v24 = ((is_nan_f32(v22) & ((!is_nan_f32(v5)) | (v23 < v6))) | ((!is_nan_f32(v5)) & ((v5 < v22) | ((v22 == v5) & (v23 < v6)))));
    v5 = select(v5, v22, v24);
    v6 = select(v6, v23, v24);
    s0[lid] = v5;
    s1[lid] = v6;
  }
  workgroupBarrier();
  let v25 = i32(u32(lid) % u32(8i));
  let v26 = s0[v25];
  let v27 = s1[v25];
  let v28 = select(i64(v27), 9223372036854775807li, (v27 == 2147483647i));
  let v29 = (v3 & (v1 == 0i));
  if (v29) {
    b1[v4] = v28;
  }
}
