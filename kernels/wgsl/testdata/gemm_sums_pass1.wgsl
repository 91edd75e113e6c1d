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
    let v12 = (v2 + 1i);
    let v13 = (v2 + 2i);
    let v14 = (v2 + 3i);
    if ((v2 < P.p1)) {
      let v15 = (v11 + v2);
      b2[v15] = v8.x;
    }
    let v16 = (v2 + 1i);
    if ((v16 < P.p1)) {
      let v17 = (v11 + v12);
      b2[v17] = v8.y;
    }
    let v18 = (v2 + 2i);
    if ((v18 < P.p1)) {
      let v19 = (v11 + v13);
      b2[v19] = v8.z;
    }
    let v20 = (v2 + 3i);
    if ((v20 < P.p1)) {
      let v21 = (v11 + v14);
      b2[v21] = v8.w;
    }
    if (((v2 == 0i) & (i32(u32(v1) % u32(4i)) == 0i))) {
      let v22 = i32(u32((P.p1 + 3i)) / u32(4i));
      let v23 = i32(u32((P.p0 + 3i)) / u32(4i));
      let v24 = (((2i * P.p0) * v22) + i32(u32(v1) / u32(4i)));
      let v25 = b4[v24];
      let v26 = b4[(v24 + v23)];
      let v27 = (v25 + v26);
      if ((v1 < P.p0)) {
        b3[v1] = v27.x;
      }
      let v28 = (v1 + 1i);
      if ((v28 < P.p0)) {
        b3[v28] = v27.y;
      }
      let v29 = (v1 + 2i);
      if ((v29 < P.p0)) {
        b3[v29] = v27.z;
      }
      let v30 = (v1 + 3i);
      if ((v30 < P.p0)) {
        b3[v30] = v27.w;
      }
    }
  }
}
