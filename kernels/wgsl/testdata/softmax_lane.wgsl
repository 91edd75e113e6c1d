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
    let v2 = (v0 * P.p1);
    for (var v3: i32 = 0i; v3 < P.p1; v3 += 1i) {
      let v4 = (v2 + v3);
      let v5 = b0[v4];
      v1 = max_nan_f32(v1, v5);
    }
    var v6: f32 = 0f;
    let v7 = (v0 * P.p1);
    for (var v8: i32 = 0i; v8 < P.p1; v8 += 32i) {
      var v9: f32 = 0f;
      let v10 = min(P.p1, (v8 + 32i));
      for (var v11: i32 = v8; v11 < v10; v11 += 1i) {
        let v12 = (v7 + v11);
        let v13 = b0[v12];
        let v14 = (v13 - v1);
        let v15 = exp(v14);
        v9 = (v9 + v15);
      }
      v6 = (v6 + v9);
    }
    let v16 = (v0 * P.p1);
    for (var v17: i32 = 0i; v17 < P.p1; v17 += 1i) {
      let v18 = (v16 + v17);
      let v19 = b0[v18];
      let v20 = (v19 - v1);
      let v21 = exp(v20);
      let v22 = (v21 / v6);
      b1[v18] = v22;
    }
  }
}
