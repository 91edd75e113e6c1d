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
  let v22 = i32(u32(v20) / u32(4i));
  let v23 = i32(u32(v21) / u32(4i));
  let v24 = i32(u32(P.p4) / u32(4i));
  let v25 = i32(u32(lid) / u32(8i));
  let v26 = i32(u32(lid) % u32(8i));
  let v27 = (v26 * 4i);
  let v28 = i32(u32((P.p5 + min((v13 + v27), (P.p0 - 4i)))) / u32(4i));
  let v29 = ((v25 * 36i) + v27);
  let v30 = i32(u32(v29) / u32(4i));
  let v31 = (v28 + (v25 * v24));
  let v32 = i32(u32(P.p6) / u32(4i));
  let v33 = i32(u32(lid) / u32(8i));
  let v34 = i32(u32(lid) % u32(8i));
  let v35 = (v34 * 4i);
  let v36 = i32(u32((P.p8 + min((v14 + v35), (P.p1 - 4i)))) / u32(4i));
  let v37 = ((v33 * 36i) + v35);
  let v38 = i32(u32(v37) / u32(4i));
  let v39 = (v36 + (v33 * v32));
  var v40: vec4<f32> = vec4<f32>(0f);
  var v41: vec4<f32> = vec4<f32>(0f);
  var v42: vec4<f32> = vec4<f32>(0f);
  var v43: vec4<f32> = vec4<f32>(0f);
  var v44: vec4<f32> = vec4<f32>(0f);
  for (var v45: i32 = v2; v45 < v3; v45 += 8i) {
    let v46 = (v45 * v24);
    let v47 = (v31 + v46);
    let v48 = b0[v47];
    v44 = (v44 + v48);
    s0[v30] = v48;
    let v49 = (v45 * v32);
    let v50 = (v39 + v49);
    let v51 = b1[v50];
    s1[v38] = v51;
    workgroupBarrier();
    for (var v52: i32 = 0i; v52 < 8i; v52 += 1i) {
      let v53 = s0[(v22 + (v52 * 9i))];
      let v54 = s1[(v23 + (v52 * 9i))];
      v40 = fma(vec4<f32>(v53.x), v54, v40);
      v41 = fma(vec4<f32>(v53.y), v54, v41);
      v42 = fma(vec4<f32>(v53.z), v54, v42);
      v43 = fma(vec4<f32>(v53.w), v54, v43);
    }
    workgroupBarrier();
  }
  s0[v30] = v44;
  workgroupBarrier();
  let v55 = (v13 + (lid * 4i));
  if ((((v14 < 1i) & (lid < 8i)) & (v55 < P.p0))) {
    let v56 = s0[lid];
    let v57 = (v56 + s0[(lid + 9i)]);
    let v58 = (v57 + s0[(lid + 18i)]);
    let v59 = (v58 + s0[(lid + 27i)]);
    let v60 = (v59 + s0[(lid + 36i)]);
    let v61 = (v60 + s0[(lid + 45i)]);
    let v62 = (v61 + s0[(lid + 54i)]);
    let v63 = (v62 + s0[(lid + 63i)]);
    let v64 = i32(u32((P.p1 + 3i)) / u32(4i));
    let v65 = i32(u32((P.p0 + 3i)) / u32(4i));
    let v66 = (((2i * P.p0) * v64) + i32(u32(v55) / u32(4i)));
    let v67 = (v66 + (v0 * v65));
    b4[v67] = v63;
  }
  let v68 = (v0 * P.p0);
  let v69 = i32(u32((P.p1 + 3i)) / u32(4i));
  let v70 = (v14 + v21);
  let v71 = (v13 + v20);
  if (((v71 < P.p0) & (v70 < P.p1))) {
    let v72 = (((v68 + v71) * v69) + i32(u32(v70) / u32(4i)));
    b4[v72] = v40;
  }
  let v73 = (v13 + (v20 + 1i));
  if (((v73 < P.p0) & (v70 < P.p1))) {
    let v74 = (((v68 + v73) * v69) + i32(u32(v70) / u32(4i)));
    b4[v74] = v41;
  }
  let v75 = (v13 + (v20 + 2i));
  if (((v75 < P.p0) & (v70 < P.p1))) {
    let v76 = (((v68 + v75) * v69) + i32(u32(v70) / u32(4i)));
    b4[v76] = v42;
  }
  let v77 = (v13 + (v20 + 3i));
  if (((v77 < P.p0) & (v70 < P.p1))) {
    let v78 = (((v68 + v77) * v69) + i32(u32(v70) / u32(4i)));
    b4[v78] = v43;
  }
}
