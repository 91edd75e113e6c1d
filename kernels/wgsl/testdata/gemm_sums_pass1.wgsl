@group(0) @binding(0) var<storage, read> b0: array<f32>;
@group(0) @binding(1) var<storage, read> b1: array<f32>;
@group(0) @binding(2) var<storage, read_write> b2: array<f32>;
@group(0) @binding(3) var<storage, read_write> b3: array<f32>;
@group(0) @binding(4) var<storage, read_write> b4: array<vec4<f32>>;
struct Params {
  p0: i32,
  p1: i32,
  p2: i32,
  p3: i32,
  p4: i32,
  p5: i32,
  p6: i32,
  p7: i32,
  p8: i32,
}
@group(0) @binding(5) var<uniform> P: Params;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let gid = i32(wg.y * 32768u + wg.x);
  let lid = i32(local);
  let v0 = i32(u32((P.p1 + 255i)) / u32(256i));
  let v1 = i32(u32(gid) / u32(v0));
  let v2 = ((i32(u32(gid) % u32(v0)) * 256i) + (lid * 4i));
  if ((v2 < P.p1)) {
    let v3 = i32(u32((P.p1 + 3i)) / u32(4i));
    let v4 = (P.p0 * v3);
    let v5 = ((v1 * v3) + i32(u32(v2) / u32(4i)));
    let v6 = b4[v5];
    let v7 = b4[(v5 + v4)];
    let v8 = (v6 + v7);
    let v9 = i32(u32(v1) / u32(P.p0));
    let v10 = i32(u32(v1) % u32(P.p0));
    let v11 = (v10 * P.p1);
    if ((v2 < P.p1)) {
      let v12 = (v11 + v2);
      b2[v12] = v8.x;
    }
    let v13 = (v2 + 1i);
    if ((v13 < P.p1)) {
      let v14 = (v11 + v13);
      b2[v14] = v8.y;
    }
    let v15 = (v2 + 2i);
    if ((v15 < P.p1)) {
      let v16 = (v11 + v15);
      b2[v16] = v8.z;
    }
    let v17 = (v2 + 3i);
    if ((v17 < P.p1)) {
      let v18 = (v11 + v17);
      b2[v18] = v8.w;
    }
    if (((v2 == 0i) & (i32(u32(v1) % u32(4i)) == 0i))) {
      let v19 = i32(u32((P.p1 + 3i)) / u32(4i));
      let v20 = i32(u32((P.p0 + 3i)) / u32(4i));
      let v21 = (((2i * P.p0) * v19) + i32(u32(v1) / u32(4i)));
      let v22 = b4[v21];
      let v23 = b4[(v21 + v20)];
      let v24 = (v22 + v23);
      if ((v1 < P.p0)) {
        b3[v1] = v24.x;
      }
      let v25 = (v1 + 1i);
      if ((v25 < P.p0)) {
        b3[v25] = v24.y;
      }
      let v26 = (v1 + 2i);
      if ((v26 < P.p0)) {
        b3[v26] = v24.z;
      }
      let v27 = (v1 + 3i);
      if ((v27 < P.p0)) {
        b3[v27] = v24.w;
      }
    }
  }
}
