@group(0) @binding(0) var<storage, read> b0: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> b1: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> b2: array<f32>;
@group(0) @binding(3) var<storage, read_write> b3: array<vec4<f32>>;
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
  p9: i32,
  p10: i32,
}
@group(0) @binding(4) var<uniform> P: Params;
var<workgroup> s0: array<vec4<f32>, 72>;
var<workgroup> s1: array<vec4<f32>, 72>;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let gid = i32(wg.y * 32768u + wg.x);
  let lid = i32(local);
  let v0 = i32(u32((P.p0 + 31i)) / u32(32i));
  let v1 = i32(u32((P.p1 + 31i)) / u32(32i));
  let v2 = (v0 * v1);
  let v3 = i32(u32(gid) % u32(v2));
  let v4 = (v1 * 8i);
  let v5 = (i32(u32(v3) / u32(v4)) * 8i);
  let v6 = min((v0 - v5), 8i);
  let v7 = i32(u32(v3) % u32(v4));
  let v8 = ((v5 + i32(u32(v7) % u32(v6))) * 32i);
  let v9 = (i32(u32(v7) / u32(v6)) * 32i);
  let v10 = i32(u32(gid) / u32(v2));
  let v11 = i32(u32(lid) / u32(32i));
  let v12 = i32(u32(lid) % u32(32i));
  let v13 = ((i32(u32(v12) / u32(16i)) * 2i) + i32(u32(v12) % u32(2i)));
  let v14 = i32(u32(i32(u32(v12) % u32(16i))) / u32(2i));
  let v15 = ((v11 * 16i) + (v13 * 4i));
  let v16 = (v14 * 4i);
  let v17 = i32(u32(v15) / u32(4i));
  let v18 = i32(u32(v16) / u32(4i));
  let v19 = i32(u32(P.p4) / u32(4i));
  let v20 = i32(u32(lid) / u32(2i));
  let v21 = i32(u32(lid) % u32(2i));
  let v22 = i32(u32((P.p5 + (min((v8 + v20), (P.p0 - 1i)) * P.p3))) / u32(4i));
  let v23 = (v21 * 4i);
  let v24 = ((v23 * 36i) + v20);
  let v25 = i32(u32(v24) / u32(4i));
  let v26 = i32(u32(v24) % u32(4i));
  let v27 = (v22 + i32(u32(v23) / u32(4i)));
  let v28 = i32(u32(P.p6) / u32(4i));
  let v29 = i32(u32(lid) / u32(8i));
  let v30 = i32(u32(lid) % u32(8i));
  let v31 = (v30 * 4i);
  let v32 = i32(u32((P.p8 + min((v9 + v31), (P.p1 - 4i)))) / u32(4i));
  let v33 = ((v29 * 36i) + v31);
  let v34 = i32(u32(v33) / u32(4i));
  let v35 = (v32 + (v29 * v28));
  var v36: vec4<f32> = vec4<f32>(0f);
  var v37: vec4<f32> = vec4<f32>(0f);
  var v38: vec4<f32> = vec4<f32>(0f);
  var v39: vec4<f32> = vec4<f32>(0f);
  for (var v40: i32 = 0i; v40 < P.p2; v40 += 8i) {
    let v41 = (v40 + v23);
    let v42 = min(v41, (P.p2 - 4i));
    let v43 = (v22 + i32(u32(v42) / u32(4i)));
    let v44 = b0[v43];
    let v45 = select(vec4<f32>(0f), v44, vec4<bool>((v41 < P.p2)));
    s0[v25][v26] = v45.x;
    s0[(v25 + 9i)][v26] = v45.y;
    s0[(v25 + 18i)][v26] = v45.z;
    s0[(v25 + 27i)][v26] = v45.w;
    let v46 = (v40 + v29);
    let v47 = min(v46, (P.p2 - 1i));
    let v48 = (v32 + (v47 * v28));
    let v49 = b1[v48];
    s1[v34] = select(vec4<f32>(0f), v49, vec4<bool>((v46 < P.p2)));
    workgroupBarrier();
    for (var v50: i32 = 0i; v50 < 8i; v50 += 1i) {
      let v51 = s0[(v17 + (v50 * 9i))];
      let v52 = s1[(v18 + (v50 * 9i))];
      v36 = fma(vec4<f32>(v51.x), v52, v36);
      v37 = fma(vec4<f32>(v51.y), v52, v37);
      v38 = fma(vec4<f32>(v51.z), v52, v38);
      v39 = fma(vec4<f32>(v51.w), v52, v39);
    }
    workgroupBarrier();
  }
  let v53 = (v9 + v16);
  let v54 = (P.p10 + (min(v53, (P.p1 - 1i)) * P.p9));
  let v55 = b2[v54];
  let v56 = (P.p10 + (min((v53 + 1i), (P.p1 - 1i)) * P.p9));
  let v57 = b2[v56];
  let v58 = (P.p10 + (min((v53 + 2i), (P.p1 - 1i)) * P.p9));
  let v59 = b2[v58];
  let v60 = (P.p10 + (min((v53 + 3i), (P.p1 - 1i)) * P.p9));
  let v61 = b2[v60];
  let v62 = vec4<f32>(v55, v57, v59, v61);
  let v63 = (v8 + v15);
  if (((v63 < P.p0) & (v53 < P.p1))) {
    let v64 = (v63 * P.p1);
    let v65 = (v36 + v62);
    let v66 = i32(u32((v64 + v53)) / u32(4i));
    let v67 = (-v65);
    let v68 = exp(v67);
    let v69 = (v68 + vec4<f32>(1f));
    let v70 = (v65 / v69);
    b3[v66] = v70;
  }
  let v71 = (v8 + (v15 + 1i));
  if (((v71 < P.p0) & (v53 < P.p1))) {
    let v72 = (v71 * P.p1);
    let v73 = (v37 + v62);
    let v74 = i32(u32((v72 + v53)) / u32(4i));
    let v75 = (-v73);
    let v76 = exp(v75);
    let v77 = (v76 + vec4<f32>(1f));
    let v78 = (v73 / v77);
    b3[v74] = v78;
  }
  let v79 = (v8 + (v15 + 2i));
  if (((v79 < P.p0) & (v53 < P.p1))) {
    let v80 = (v79 * P.p1);
    let v81 = (v38 + v62);
    let v82 = i32(u32((v80 + v53)) / u32(4i));
    let v83 = (-v81);
    let v84 = exp(v83);
    let v85 = (v84 + vec4<f32>(1f));
    let v86 = (v81 / v85);
    b3[v82] = v86;
  }
  let v87 = (v8 + (v15 + 3i));
  if (((v87 < P.p0) & (v53 < P.p1))) {
    let v88 = (v87 * P.p1);
    let v89 = (v39 + v62);
    let v90 = i32(u32((v88 + v53)) / u32(4i));
    let v91 = (-v89);
    let v92 = exp(v91);
    let v93 = (v92 + vec4<f32>(1f));
    let v94 = (v89 / v93);
    b3[v90] = v94;
  }
}
