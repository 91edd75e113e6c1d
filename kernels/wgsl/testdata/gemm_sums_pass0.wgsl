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
  let v24 = i32(u32(lid) % u32(8i));
  let v25 = (v24 * 4i);
  let v26 = i32(u32((P.p5 + min((v13 + v25), (P.p0 - 4i)))) / u32(4i));
  let v27 = ((v23 * 36i) + v25);
  let v28 = i32(u32(P.p6) / u32(4i));
  let v29 = i32(u32(lid) / u32(8i));
  let v30 = i32(u32(lid) % u32(8i));
  let v31 = (v30 * 4i);
  let v32 = i32(u32((P.p8 + min((v14 + v31), (P.p1 - 4i)))) / u32(4i));
  let v33 = ((v29 * 36i) + v31);
  var v34: vec4<f32> = vec4<f32>(0f);
  var v35: vec4<f32> = vec4<f32>(0f);
  var v36: vec4<f32> = vec4<f32>(0f);
  var v37: vec4<f32> = vec4<f32>(0f);
  var v38: vec4<f32> = vec4<f32>(0f);
  for (var v39: i32 = v2; v39 < v3; v39 += 8i) {
    let v40 = (v26 + ((v39 + v23) * v22));
    let v41 = b0[v40];
    v38 = (v38 + v41);
    s0[i32(u32(v27) / u32(4i))] = v41;
    let v42 = (v32 + ((v39 + v29) * v28));
    let v43 = b1[v42];
    s1[i32(u32(v33) / u32(4i))] = v43;
    workgroupBarrier();
    let v44 = i32(u32(v20) / u32(4i));
    let v45 = i32(u32(v21) / u32(4i));
    for (var v46: i32 = 0i; v46 < 8i; v46 += 1i) {
      let v47 = s0[(v44 + (v46 * 9i))];
      let v48 = s1[(v45 + (v46 * 9i))];
      v34 = fma(vec4<f32>(v47.x), v48, v34);
      v35 = fma(vec4<f32>(v47.y), v48, v35);
      v36 = fma(vec4<f32>(v47.z), v48, v36);
      v37 = fma(vec4<f32>(v47.w), v48, v37);
    }
    workgroupBarrier();
  }
  let v49 = i32(u32(v27) / u32(4i));
  s0[v49] = v38;
  workgroupBarrier();
  let v50 = (v13 + (lid * 4i));
  if ((((v14 < 1i) & (lid < 8i)) & (v50 < P.p0))) {
    let v51 = s0[lid];
    let v52 = (v51 + s0[(lid + 9i)]);
    let v53 = (v52 + s0[(lid + 18i)]);
    let v54 = (v53 + s0[(lid + 27i)]);
    let v55 = (v54 + s0[(lid + 36i)]);
    let v56 = (v55 + s0[(lid + 45i)]);
    let v57 = (v56 + s0[(lid + 54i)]);
    let v58 = (v57 + s0[(lid + 63i)]);
    let v59 = i32(u32((P.p1 + 3i)) / u32(4i));
    let v60 = i32(u32((P.p0 + 3i)) / u32(4i));
    let v61 = (((2i * P.p0) * v59) + i32(u32(v50) / u32(4i)));
    let v62 = (v61 + (v0 * v60));
    b4[v62] = v58;
  }
  let v63 = (v0 * P.p0);
  let v64 = i32(u32((P.p1 + 3i)) / u32(4i));
  let v65 = (v14 + v21);
  let v66 = (v13 + v20);
  if (((v66 < P.p0) & (v65 < P.p1))) {
    let v67 = (((v63 + v66) * v64) + i32(u32(v65) / u32(4i)));
    b4[v67] = v34;
  }
  let v68 = (v13 + (v20 + 1i));
  if (((v68 < P.p0) & (v65 < P.p1))) {
    let v69 = (((v63 + v68) * v64) + i32(u32(v65) / u32(4i)));
    b4[v69] = v35;
  }
  let v70 = (v13 + (v20 + 2i));
  if (((v70 < P.p0) & (v65 < P.p1))) {
    let v71 = (((v63 + v70) * v64) + i32(u32(v65) / u32(4i)));
    b4[v71] = v36;
  }
  let v72 = (v13 + (v20 + 3i));
  if (((v72 < P.p0) & (v65 < P.p1))) {
    let v73 = (((v63 + v72) * v64) + i32(u32(v65) / u32(4i)));
    b4[v73] = v37;
  }
}
