@group(0) @binding(0) var<storage, read> b0: array<f32>;
@group(0) @binding(1) var<storage, read_write> b1: array<f32>;
struct Params {
  p0: i32,
  p1: i32,
}
@group(0) @binding(2) var<uniform> P: Params;
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
  let v0 = ((gid * 64i) + lid);
  if ((v0 < P.p0)) {
    var v1: f32 = from_bits(0xff800000u);
    var v2: f32 = 0f;
    let v3 = (v0 * P.p1);
    for (var v4: i32 = 0i; v4 < P.p1; v4 += 1i) {
      let v5 = (v3 + v4);
      let v6 = b0[v5];
      let v7 = max_nan_f32(v1, v6);
      let v8 = select(v7, 0f, (v7 == from_bits(0xff800000u)));
      let v9 = (v1 - v8);
      let v10 = exp(v9);
      let v11 = (v2 * v10);
      let v12 = (v6 - v8);
      let v13 = exp(v12);
      let v14 = (v11 + v13);
      v2 = v14;
      v1 = v7;
    }
    var v15: f32 = v1;
    let v16 = (v15 - v1);
    let v17 = exp(v16);
    let v18 = (v2 * v17);
    v2 = v18;
    let v19 = (v0 * P.p1);
    for (var v20: i32 = 0i; v20 < P.p1; v20 += 1i) {
      let v21 = (v19 + v20);
      let v22 = b0[v21];
      let v23 = (v22 - v1);
      let v24 = exp(v23);
      let v25 = (v24 / v2);
      b1[v21] = v25;
    }
  }
}
