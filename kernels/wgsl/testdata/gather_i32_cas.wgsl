@group(0) @binding(0) var<storage, read> b0: array<u32>;
@group(0) @binding(1) var<storage, read> b1: array<i32>;
@group(0) @binding(2) var<storage, read_write> b2: array<atomic<u32>>;
@group(0) @binding(3) var<storage, read_write> b3: array<f32>;
@group(0) @binding(4) var<storage, read_write> fault: array<atomic<u32>, 4>;
struct Params {
  p0: i32,
  p1: i32,
  p2: i32,
  event: u32,
}
@group(0) @binding(5) var<uniform> P: Params;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let gid = i32(wg.y * 32768u + wg.x);
  let lid = i32(local);
  let v0 = ((gid * 64i) + lid);
  if ((v0 < (P.p0 * P.p1))) {
    let v1 = i32(u32(v0) % u32(P.p1));
    let v2 = i32(u32(v0) / u32(P.p1));
    let v3 = b1[v2];
    let v4 = (0i <= v3);
    let v5 = (v3 < P.p2);
    let v6 = (v4 & v5);
    let v7 = (!v6);
    let v8 = (P.p2 - 1i);
    let v9 = min(v3, v8);
    let v10 = max(0i, v9);
    let v11 = bitcast<f32>((b0[((v10 * P.p1) + v1) >> 1u] >> (16u * u32(((v10 * P.p1) + v1) & 1i))) << 16u);
    let v12 = i32(v1);
    let v13 = (v12 == 0i);
    if (v7) {
      loop {
        let r = atomicCompareExchangeWeak(&fault[0], 0u, P.event + 1u);
        if (r.exchanged) {
          atomicStore(&fault[1], bitcast<u32>(v3));
          atomicStore(&fault[2], bitcast<u32>(v3 >> 31u));
        }
        if (r.exchanged || r.old_value != 0u) { break; }
      }
    }
    b3[v0] = v11;
    if (v13) {
      {
        let at = v10;
        let x = 1f;
        var old = atomicLoad(&b2[at]);
        loop {
          let r = atomicCompareExchangeWeak(&b2[at], old, bitcast<u32>((bitcast<f32>(old) + x)));
          if (r.exchanged) { break; }
          old = r.old_value;
        }
      }
    }
  }
}
