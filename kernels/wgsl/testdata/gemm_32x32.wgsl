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
var<workgroup> s0: array<vec4<f32>, 288>;
var<workgroup> s1: array<vec4<f32>, 544>;
fn is_nan_f32x4(x: vec4<f32>) -> vec4<bool> {
  return (bitcast<vec4<u32>>(x) & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u);
}
fn our_exp_f32x4(x: vec4<f32>) -> vec4<f32> {
  let hi = x * vec4<f32>(1.4426950408889634);
  let lo = fma(x, vec4<f32>(1.925963033500634e-08), fma(x, vec4<f32>(1.4426950408889634), -hi));
  return exp2(hi) * fma(select(lo, vec4<f32>(0.0), abs(hi) > vec4<f32>(200.0)), vec4<f32>(0.6931471805599453), vec4<f32>(1.0));
}
fn erf_f32x4(x: vec4<f32>) -> vec4<f32> {
  let t = min(abs(x), vec4<f32>(4.0));
  let s = x * x;
  var p = vec4<f32>(7.882497448008507e-05);
  p = fma(p, s, vec4<f32>(-0.0008018855005502701));
  p = fma(p, s, vec4<f32>(0.005189312156289816));
  p = fma(p, s, vec4<f32>(-0.02685432881116867));
  p = fma(p, s, vec4<f32>(0.11283597350120544));
  p = fma(p, s, vec4<f32>(-0.3761262595653534));
  p = fma(p, s, vec4<f32>(1.1283791065216064));
  var q = vec4<f32>(-1.3633129128720611e-05);
  q = fma(q, t, vec4<f32>(0.0003234540345147252));
  q = fma(q, t, vec4<f32>(-0.0034814788959920406));
  q = fma(q, t, vec4<f32>(0.022804604843258858));
  q = fma(q, t, vec4<f32>(-0.10375356674194336));
  q = fma(q, t, vec4<f32>(-0.6384937167167664));
  q = fma(q, t, vec4<f32>(-1.1263688802719116));
  q = fma(q, t, vec4<f32>(-0.0006221142830327153));
  let far = vec4<f32>(1.0) - our_exp_f32x4(q);
  let y = select(select(far, -far, x < vec4<f32>(0.0)), x * p, t < vec4<f32>(1.0));
  return select(y, x, is_nan_f32x4(x));
}
@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let gid = i32(wg.y * 32768u + wg.x);
  let lid = i32(local);
  let v0 = i32(u32((P.p0 + 31i)) / u32(32i));
  let v1 = i32(u32((P.p1 + 63i)) / u32(64i));
  let v2 = (v0 * v1);
  let v3 = i32(u32(gid) % u32(v2));
  let v4 = (v1 * 8i);
  let v5 = (i32(u32(v3) / u32(v4)) * 8i);
  let v6 = min((v0 - v5), 8i);
  let v7 = i32(u32(v3) % u32(v4));
  let v8 = ((v5 + i32(u32(v7) % u32(v6))) * 32i);
  let v9 = (i32(u32(v7) / u32(v6)) * 64i);
  let v10 = i32(u32(gid) / u32(v2));
  let v11 = i32(u32(lid) / u32(32i));
  let v12 = i32(u32(lid) % u32(32i));
  let v13 = ((i32(u32(v12) / u32(16i)) * 2i) + i32(u32(v12) % u32(2i)));
  let v14 = i32(u32(i32(u32(v12) % u32(16i))) / u32(2i));
  let v15 = ((i32(u32(v11) / u32(2i)) * 16i) + (v13 * 4i));
  let v16 = ((i32(u32(v11) % u32(2i)) * 32i) + (v14 * 4i));
  let v17 = i32(u32(P.p4) / u32(4i));
  let v18 = i32(u32(lid) / u32(4i));
  let v19 = (i32(u32(lid) % u32(4i)) * 4i);
  let v20 = i32(u32((P.p5 + (min((v8 + v18), (P.p0 - 1i)) * P.p3))) / u32(4i));
  let v21 = ((v19 * 36i) + v18);
  var v22: vec4<f32> = vec4<f32>(0f);
  let v23 = i32(u32(P.p6) / u32(4i));
  let v24 = i32(u32(lid) / u32(16i));
  let v25 = (i32(u32(lid) % u32(16i)) * 4i);
  let v26 = i32(u32((P.p8 + min((v9 + v25), (P.p1 - 4i)))) / u32(4i));
  let v27 = ((v24 * 68i) + v25);
  var v28: vec4<f32> = vec4<f32>(0f);
  let v29 = (lid + 128i);
  let v30 = i32(u32(v29) / u32(16i));
  let v31 = (i32(u32(v29) % u32(16i)) * 4i);
  let v32 = i32(u32((P.p8 + min((v9 + v31), (P.p1 - 4i)))) / u32(4i));
  let v33 = ((v30 * 68i) + v31);
  var v34: vec4<f32> = vec4<f32>(0f);
  var v35: vec4<f32> = vec4<f32>(0f);
  var v36: vec4<f32> = vec4<f32>(0f);
  var v37: vec4<f32> = vec4<f32>(0f);
  var v38: vec4<f32> = vec4<f32>(0f);
  let v39 = (P.p2 - 16i);
  let v40 = (i32(u32(((P.p2 - 0i) - 1i)) % u32(16i)) + 1i);
  let v41 = select(P.p2, (v40 - 16i), (0i < P.p2));
  if ((0i < P.p2)) {
    let v42 = min(v19, (v40 - 4i));
    let v43 = (v20 + i32(u32(v42) / u32(4i)));
    let v44 = b0[v43];
    v22 = select(vec4<f32>(0f), v44, vec4<bool>((v19 < v40)));
    let v45 = min(v24, (v40 - 1i));
    let v46 = (v26 + (v45 * v23));
    let v47 = b1[v46];
    v28 = select(vec4<f32>(0f), v47, vec4<bool>((v24 < v40)));
    let v48 = min(v30, (v40 - 1i));
    let v49 = (v32 + (v48 * v23));
    let v50 = b1[v49];
    v34 = select(vec4<f32>(0f), v50, vec4<bool>((v30 < v40)));
    s0[v21 >> 2u][v21 & 3i] = v22.x;
    let v51 = (v21 + 36i);
    s0[v51 >> 2u][v51 & 3i] = v22.y;
    let v52 = (v21 + 72i);
    s0[v52 >> 2u][v52 & 3i] = v22.z;
    let v53 = (v21 + 108i);
    s0[v53 >> 2u][v53 & 3i] = v22.w;
    s1[i32(u32(v27) / u32(4i))] = v28;
    s1[i32(u32(v33) / u32(4i))] = v34;
  }
  workgroupBarrier();
  var v54: i32 = 0i;
  for (var v55: i32 = v41; v55 < P.p2; v55 += 16i) {
    let v56 = min((v55 + 16i), v39);
    let v57 = (v20 + i32(u32((v56 + v19)) / u32(4i)));
    let v58 = b0[v57];
    v22 = v58;
    let v59 = (v26 + ((v56 + v24) * v23));
    let v60 = b1[v59];
    v28 = v60;
    let v61 = (v32 + ((v56 + v30) * v23));
    let v62 = b1[v61];
    v34 = v62;
    let v63 = (v54 * 144i);
    let v64 = (v54 * 272i);
    let v65 = (v63 + i32(u32(v15) / u32(4i)));
    let v66 = (v64 + i32(u32(v16) / u32(4i)));
    let v67 = s0[v65];
    let v68 = s1[v66];
    v35 = fma(vec4<f32>(v67.x), v68, v35);
    v36 = fma(vec4<f32>(v67.y), v68, v36);
    v37 = fma(vec4<f32>(v67.z), v68, v37);
    v38 = fma(vec4<f32>(v67.w), v68, v38);
    let v69 = s0[(v65 + 9i)];
    let v70 = s1[(v66 + 17i)];
    v35 = fma(vec4<f32>(v69.x), v70, v35);
    v36 = fma(vec4<f32>(v69.y), v70, v36);
    v37 = fma(vec4<f32>(v69.z), v70, v37);
    v38 = fma(vec4<f32>(v69.w), v70, v38);
    let v71 = s0[(v65 + 18i)];
    let v72 = s1[(v66 + 34i)];
    v35 = fma(vec4<f32>(v71.x), v72, v35);
    v36 = fma(vec4<f32>(v71.y), v72, v36);
    v37 = fma(vec4<f32>(v71.z), v72, v37);
    v38 = fma(vec4<f32>(v71.w), v72, v38);
    let v73 = s0[(v65 + 27i)];
    let v74 = s1[(v66 + 51i)];
    v35 = fma(vec4<f32>(v73.x), v74, v35);
    v36 = fma(vec4<f32>(v73.y), v74, v36);
    v37 = fma(vec4<f32>(v73.z), v74, v37);
    v38 = fma(vec4<f32>(v73.w), v74, v38);
    let v75 = s0[(v65 + 36i)];
    let v76 = s1[(v66 + 68i)];
    v35 = fma(vec4<f32>(v75.x), v76, v35);
    v36 = fma(vec4<f32>(v75.y), v76, v36);
    v37 = fma(vec4<f32>(v75.z), v76, v37);
    v38 = fma(vec4<f32>(v75.w), v76, v38);
    let v77 = s0[(v65 + 45i)];
    let v78 = s1[(v66 + 85i)];
    v35 = fma(vec4<f32>(v77.x), v78, v35);
    v36 = fma(vec4<f32>(v77.y), v78, v36);
    v37 = fma(vec4<f32>(v77.z), v78, v37);
    v38 = fma(vec4<f32>(v77.w), v78, v38);
    let v79 = s0[(v65 + 54i)];
    let v80 = s1[(v66 + 102i)];
    v35 = fma(vec4<f32>(v79.x), v80, v35);
    v36 = fma(vec4<f32>(v79.y), v80, v36);
    v37 = fma(vec4<f32>(v79.z), v80, v37);
    v38 = fma(vec4<f32>(v79.w), v80, v38);
    let v81 = s0[(v65 + 63i)];
    let v82 = s1[(v66 + 119i)];
    v35 = fma(vec4<f32>(v81.x), v82, v35);
    v36 = fma(vec4<f32>(v81.y), v82, v36);
    v37 = fma(vec4<f32>(v81.z), v82, v37);
    v38 = fma(vec4<f32>(v81.w), v82, v38);
    let v83 = s0[(v65 + 72i)];
    let v84 = s1[(v66 + 136i)];
    v35 = fma(vec4<f32>(v83.x), v84, v35);
    v36 = fma(vec4<f32>(v83.y), v84, v36);
    v37 = fma(vec4<f32>(v83.z), v84, v37);
    v38 = fma(vec4<f32>(v83.w), v84, v38);
    let v85 = s0[(v65 + 81i)];
    let v86 = s1[(v66 + 153i)];
    v35 = fma(vec4<f32>(v85.x), v86, v35);
    v36 = fma(vec4<f32>(v85.y), v86, v36);
    v37 = fma(vec4<f32>(v85.z), v86, v37);
    v38 = fma(vec4<f32>(v85.w), v86, v38);
    let v87 = s0[(v65 + 90i)];
    let v88 = s1[(v66 + 170i)];
    v35 = fma(vec4<f32>(v87.x), v88, v35);
    v36 = fma(vec4<f32>(v87.y), v88, v36);
    v37 = fma(vec4<f32>(v87.z), v88, v37);
    v38 = fma(vec4<f32>(v87.w), v88, v38);
    let v89 = s0[(v65 + 99i)];
    let v90 = s1[(v66 + 187i)];
    v35 = fma(vec4<f32>(v89.x), v90, v35);
    v36 = fma(vec4<f32>(v89.y), v90, v36);
    v37 = fma(vec4<f32>(v89.z), v90, v37);
    v38 = fma(vec4<f32>(v89.w), v90, v38);
    let v91 = s0[(v65 + 108i)];
    let v92 = s1[(v66 + 204i)];
    v35 = fma(vec4<f32>(v91.x), v92, v35);
    v36 = fma(vec4<f32>(v91.y), v92, v36);
    v37 = fma(vec4<f32>(v91.z), v92, v37);
    v38 = fma(vec4<f32>(v91.w), v92, v38);
    let v93 = s0[(v65 + 117i)];
    let v94 = s1[(v66 + 221i)];
    v35 = fma(vec4<f32>(v93.x), v94, v35);
    v36 = fma(vec4<f32>(v93.y), v94, v36);
    v37 = fma(vec4<f32>(v93.z), v94, v37);
    v38 = fma(vec4<f32>(v93.w), v94, v38);
    let v95 = s0[(v65 + 126i)];
    let v96 = s1[(v66 + 238i)];
    v35 = fma(vec4<f32>(v95.x), v96, v35);
    v36 = fma(vec4<f32>(v95.y), v96, v36);
    v37 = fma(vec4<f32>(v95.z), v96, v37);
    v38 = fma(vec4<f32>(v95.w), v96, v38);
    let v97 = s0[(v65 + 135i)];
    let v98 = s1[(v66 + 255i)];
    v35 = fma(vec4<f32>(v97.x), v98, v35);
    v36 = fma(vec4<f32>(v97.y), v98, v36);
    v37 = fma(vec4<f32>(v97.z), v98, v37);
    v38 = fma(vec4<f32>(v97.w), v98, v38);
    let v99 = (1i - v54);
    let v100 = (v99 * 576i);
    let v101 = (v100 + v21);
    s0[v101 >> 2u][v101 & 3i] = v22.x;
    let v102 = ((v100 + v21) + 36i);
    s0[v102 >> 2u][v102 & 3i] = v22.y;
    let v103 = ((v100 + v21) + 72i);
    s0[v103 >> 2u][v103 & 3i] = v22.z;
    let v104 = ((v100 + v21) + 108i);
    s0[v104 >> 2u][v104 & 3i] = v22.w;
    let v105 = (v99 * 1088i);
    s1[i32(u32((v105 + v27)) / u32(4i))] = v28;
    s1[i32(u32((v105 + v33)) / u32(4i))] = v34;
    workgroupBarrier();
    v54 = v99;
  }
  let v106 = (v9 + v16);
  let v107 = (P.p10 + (min(v106, (P.p1 - 1i)) * P.p9));
  let v108 = b2[v107];
  let v109 = (P.p10 + (min((v106 + 1i), (P.p1 - 1i)) * P.p9));
  let v110 = b2[v109];
  let v111 = (P.p10 + (min((v106 + 2i), (P.p1 - 1i)) * P.p9));
  let v112 = b2[v111];
  let v113 = (P.p10 + (min((v106 + 3i), (P.p1 - 1i)) * P.p9));
  let v114 = b2[v113];
  let v115 = vec4<f32>(v108, v110, v112, v114);
  let v116 = (v8 + v15);
  if (((v116 < P.p0) & (v106 < P.p1))) {
    let v117 = (v116 * P.p1);
    let v118 = (v35 + v115);
    let v119 = ((vec4<f32>(0.5f) * v118) * (vec4<f32>(1f) + erf_f32x4((v118 * vec4<f32>(0.70710677f)))));
    let v120 = i32(u32((v117 + v106)) / u32(4i));
    b3[v120] = v119;
  }
  let v121 = (v8 + (v15 + 1i));
  if (((v121 < P.p0) & (v106 < P.p1))) {
    let v122 = (v121 * P.p1);
    let v123 = (v36 + v115);
    let v124 = ((vec4<f32>(0.5f) * v123) * (vec4<f32>(1f) + erf_f32x4((v123 * vec4<f32>(0.70710677f)))));
    let v125 = i32(u32((v122 + v106)) / u32(4i));
    b3[v125] = v124;
  }
  let v126 = (v8 + (v15 + 2i));
  if (((v126 < P.p0) & (v106 < P.p1))) {
    let v127 = (v126 * P.p1);
    let v128 = (v37 + v115);
    let v129 = ((vec4<f32>(0.5f) * v128) * (vec4<f32>(1f) + erf_f32x4((v128 * vec4<f32>(0.70710677f)))));
    let v130 = i32(u32((v127 + v106)) / u32(4i));
    b3[v130] = v129;
  }
  let v131 = (v8 + (v15 + 3i));
  if (((v131 < P.p0) & (v106 < P.p1))) {
    let v132 = (v131 * P.p1);
    let v133 = (v38 + v115);
    let v134 = ((vec4<f32>(0.5f) * v133) * (vec4<f32>(1f) + erf_f32x4((v133 * vec4<f32>(0.70710677f)))));
    let v135 = i32(u32((v132 + v106)) / u32(4i));
    b3[v135] = v134;
  }
}
