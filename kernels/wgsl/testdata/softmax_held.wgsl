@group(0) @binding(0) var<storage, read> b0: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> b1: array<vec4<f32>>;
struct Params {
  p0: i32,
  p1: i32,
}
@group(0) @binding(2) var<uniform> P: Params;
var<workgroup> s0: array<f32, 4>;
fn from_bits(x: u32) -> f32 {
  return bitcast<f32>(x);
}
fn is_nan_f32x4(x: vec4<f32>) -> vec4<bool> {
  return (bitcast<vec4<u32>>(x) & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u);
}
fn max_nan_f32x4(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
  return select(select(max(a, b), b, is_nan_f32x4(b)), a, is_nan_f32x4(a));
}
fn is_nan_f32(x: f32) -> bool {
  return (bitcast<u32>(x) & u32(0x7fffffffu)) > u32(0x7f800000u);
}
fn max_nan_f32(a: f32, b: f32) -> f32 {
  return select(select(max(a, b), b, is_nan_f32(b)), a, is_nan_f32(a));
}
@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let gid = i32(wg.y * 32768u + wg.x);
  let lid = i32(local);
  let v0 = i32(u32(lid) % u32(64i));
  let v1 = i32(u32(lid) / u32(64i));
  let v2 = i32(u32(P.p1) / u32(4i));
  let v3 = ((gid * 2i) + v1);
  let v4 = (v3 < P.p0);
  let v5 = min(v3, (P.p0 - 1i));
  var v6: vec4<f32> = vec4<f32>(from_bits(0xff800000u));
  let v7 = (v5 * v2);
  let v8 = (v2 - 1i);
  let v9 = (v0 < v2);
  let v10 = min(v0, v8);
  let v11 = (v7 + v10);
  let v12 = (v0 + 64i);
  let v13 = (v12 < v2);
  let v14 = min(v12, v8);
  let v15 = (v7 + v14);
  let v16 = b0[v11];
  let v17 = b0[v15];
  let v18 = select(vec4<f32>(from_bits(0xff800000u)), v16, vec4<bool>(v9));
  v6 = max_nan_f32x4(v6, v18);
  let v19 = select(vec4<f32>(from_bits(0xff800000u)), v17, vec4<bool>(v13));
  v6 = max_nan_f32x4(v6, v19);
  var v20: f32 = max_nan_f32(max_nan_f32(v6.x, v6.y), max_nan_f32(v6.z, v6.w));
  let v21 = subgroupShuffleXor(v20, 16u);
  v20 = max_nan_f32(v20, v21);
  let v22 = subgroupShuffleXor(v20, 8u);
  v20 = max_nan_f32(v20, v22);
  let v23 = subgroupShuffleXor(v20, 4u);
  v20 = max_nan_f32(v20, v23);
  let v24 = subgroupShuffleXor(v20, 2u);
  v20 = max_nan_f32(v20, v24);
  let v25 = subgroupShuffleXor(v20, 1u);
  v20 = max_nan_f32(v20, v25);
  workgroupBarrier();
  if ((i32(u32(lid) % u32(32i)) == 0i)) {
    let v26 = i32(u32(lid) / u32(32i));
    s0[v26] = v20;
  }
  workgroupBarrier();
  let v27 = ((i32(u32(lid) / u32(64i)) * 2i) + i32(u32(lid) % u32(2i)));
  let v28 = s0[v27];
  v20 = v28;
  let v29 = subgroupShuffleXor(v20, 1u);
  v20 = max_nan_f32(v20, v29);
  var v30: vec4<f32> = vec4<f32>(0f);
  let v31 = (v5 * v2);
  let v32 = (v16 - vec4<f32>(v20));
  let v33 = exp(v32);
  let v34 = select(vec4<f32>(0f), v33, vec4<bool>(v9));
  v30 = (v30 + v34);
  let v35 = (v17 - vec4<f32>(v20));
  let v36 = exp(v35);
  let v37 = select(vec4<f32>(0f), v36, vec4<bool>(v13));
  v30 = (v30 + v37);
  var v38: f32 = ((v30.x + v30.y) + (v30.z + v30.w));
  let v39 = subgroupShuffleXor(v38, 16u);
  v38 = (v38 + v39);
  let v40 = subgroupShuffleXor(v38, 8u);
  v38 = (v38 + v40);
  let v41 = subgroupShuffleXor(v38, 4u);
  v38 = (v38 + v41);
  let v42 = subgroupShuffleXor(v38, 2u);
  v38 = (v38 + v42);
  let v43 = subgroupShuffleXor(v38, 1u);
  v38 = (v38 + v43);
  workgroupBarrier();
  if ((i32(u32(lid) % u32(32i)) == 0i)) {
    let v44 = i32(u32(lid) / u32(32i));
    s0[v44] = v38;
  }
  workgroupBarrier();
  let v45 = ((i32(u32(lid) / u32(64i)) * 2i) + i32(u32(lid) % u32(2i)));
  let v46 = s0[v45];
  v38 = v46;
  let v47 = subgroupShuffleXor(v38, 1u);
  v38 = (v38 + v47);
  let v48 = (v5 * v2);
  let v49 = (v4 & v9);
  let v50 = (v33 / vec4<f32>(v38));
  if (v49) {
    b1[v11] = v50;
  }
  let v51 = (v4 & v13);
  let v52 = (v36 / vec4<f32>(v38));
  if (v51) {
    b1[v15] = v52;
  }
}
