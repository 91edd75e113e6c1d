@group(0) @binding(0) var<storage, read> b0: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> b1: array<vec4<f32>>;
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
var<workgroup> s0: array<vec4<f32>, 72>;
var<workgroup> s1: array<vec4<f32>, 72>;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let gid = i32(wg.y * 32768u + wg.x);
  let lid = i32(local);
  let v0 = i32(u32(gid) % u32(2i));
  let v1 = (i32(u32((P.p2 + 15i)) / u32(16i)) * 8i);
  let v2 = (v0 * v1);
  let v3 = min(P.p2, (v2 + v1));
  let v4 = i32(u32(gid) / u32(2i));
  let v5 = i32(u32((P.p0 + 31i)) / u32(32i));
  let v6 = i32(u32((P.p1 + 31i)) / u32(32i));
  let v7 = (v5 * v6);
  let v8 = i32(u32(v4) % u32(v7));
  let v9 = (v6 * 8i);
  let v10 = (i32(u32(v8) / u32(v9)) * 8i);
  let v11 = min((v5 - v10), 8i);
  let v12 = i32(u32(v8) % u32(v9));
  let v13 = ((v10 + i32(u32(v12) % u32(v11))) * 32i);
  let v14 = (i32(u32(v12) / u32(v11)) * 32i);
  let v15 = i32(u32(v4) / u32(v7));
  let v16 = i32(u32(lid) / u32(32i));
  let v17 = i32(u32(lid) % u32(32i));
  let v18 = ((i32(u32(v17) / u32(16i)) * 2i) + i32(u32(v17) % u32(2i)));
  let v19 = i32(u32(i32(u32(v17) % u32(16i))) / u32(2i));
  let v20 = ((v16 * 16i) + (v18 * 4i));
  let v21 = (v19 * 4i);
  let v22 = i32(u32(P.p4) / u32(4i));
  let v23 = i32(u32(lid) / u32(8i));
  let v24 = (i32(u32(lid) % u32(8i)) * 4i);
  let v25 = i32(u32((P.p5 + min((v13 + v24), (P.p0 - 4i)))) / u32(4i));
  let v26 = ((v23 * 36i) + v24);
  let v27 = i32(u32(P.p6) / u32(4i));
  let v28 = i32(u32(lid) / u32(8i));
  let v29 = (i32(u32(lid) % u32(8i)) * 4i);
  let v30 = i32(u32((P.p8 + min((v14 + v29), (P.p1 - 4i)))) / u32(4i));
  let v31 = ((v28 * 36i) + v29);
  var v32: vec4<f32> = vec4<f32>(0f);
  var v33: vec4<f32> = vec4<f32>(0f);
  var v34: vec4<f32> = vec4<f32>(0f);
  var v35: vec4<f32> = vec4<f32>(0f);
  var v36: vec4<f32> = vec4<f32>(0f);
  for (var v37: i32 = v2; v37 < v3; v37 += 8i) {
    let v38 = (v25 + ((v37 + v23) * v22));
    let v39 = b0[v38];
    v36 = (v36 + v39);
    s0[i32(u32(v26) / u32(4i))] = v39;
    let v40 = (v30 + ((v37 + v28) * v27));
    let v41 = b1[v40];
    s1[i32(u32(v31) / u32(4i))] = v41;
    workgroupBarrier();
    let v42 = i32(u32(v20) / u32(4i));
    let v43 = i32(u32(v21) / u32(4i));
    for (var v44: i32 = 0i; v44 < 8i; v44 += 1i) {
      let v45 = s0[(v42 + (v44 * 9i))];
      let v46 = s1[(v43 + (v44 * 9i))];
      v32 = fma(vec4<f32>(v45.x), v46, v32);
      v33 = fma(vec4<f32>(v45.y), v46, v33);
      v34 = fma(vec4<f32>(v45.z), v46, v34);
      v35 = fma(vec4<f32>(v45.w), v46, v35);
    }
    workgroupBarrier();
  }
  let v47 = i32(u32(v26) / u32(4i));
  s0[v47] = v36;
  workgroupBarrier();
  let v48 = (v13 + (lid * 4i));
  if ((((v14 < 1i) & (lid < 8i)) & (v48 < P.p0))) {
    let v49 = s0[lid];
    let v50 = (v49 + s0[(lid + 9i)]);
    let v51 = (v50 + s0[(lid + 18i)]);
    let v52 = (v51 + s0[(lid + 27i)]);
    let v53 = (v52 + s0[(lid + 36i)]);
    let v54 = (v53 + s0[(lid + 45i)]);
    let v55 = (v54 + s0[(lid + 54i)]);
    let v56 = (v55 + s0[(lid + 63i)]);
    let v57 = i32(u32((P.p1 + 3i)) / u32(4i));
    let v58 = i32(u32((P.p0 + 3i)) / u32(4i));
    let v59 = (((2i * P.p0) * v57) + i32(u32(v48) / u32(4i)));
    let v60 = (v59 + (v0 * v58));
    b4[v60] = v56;
  }
  let v61 = (v0 * P.p0);
  let v62 = i32(u32((P.p1 + 3i)) / u32(4i));
  let v63 = (v14 + v21);
  let v64 = (v13 + v20);
  if (((v64 < P.p0) & (v63 < P.p1))) {
    let v65 = (((v61 + v64) * v62) + i32(u32(v63) / u32(4i)));
    b4[v65] = v32;
  }
  let v66 = (v13 + (v20 + 1i));
  if (((v66 < P.p0) & (v63 < P.p1))) {
    let v67 = (((v61 + v66) * v62) + i32(u32(v63) / u32(4i)));
    b4[v67] = v33;
  }
  let v68 = (v13 + (v20 + 2i));
  if (((v68 < P.p0) & (v63 < P.p1))) {
    let v69 = (((v61 + v68) * v62) + i32(u32(v63) / u32(4i)));
    b4[v69] = v34;
  }
  let v70 = (v13 + (v20 + 3i));
  if (((v70 < P.p0) & (v63 < P.p1))) {
    let v71 = (((v61 + v70) * v62) + i32(u32(v63) / u32(4i)));
    b4[v71] = v35;
  }
}
