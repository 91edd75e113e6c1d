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
  let v19 = i32(u32(lid) % u32(4i));
  let v20 = i32(u32((P.p5 + (min((v8 + v18), (P.p0 - 1i)) * P.p3))) / u32(4i));
  let v21 = (v19 * 4i);
  let v22 = ((v21 * 36i) + v18);
  var v23: vec4<f32> = vec4<f32>(0f);
  let v24 = i32(u32(P.p6) / u32(4i));
  let v25 = i32(u32(lid) / u32(16i));
  let v26 = i32(u32(lid) % u32(16i));
  let v27 = (v26 * 4i);
  let v28 = i32(u32((P.p8 + min((v9 + v27), (P.p1 - 4i)))) / u32(4i));
  let v29 = ((v25 * 68i) + v27);
  var v30: vec4<f32> = vec4<f32>(0f);
  let v31 = (v26 * 4i);
  let v32 = (v25 + 8i);
  let v33 = ((v32 * 68i) + v31);
  var v34: vec4<f32> = vec4<f32>(0f);
  var v35: vec4<f32> = vec4<f32>(0f);
  var v36: vec4<f32> = vec4<f32>(0f);
  var v37: vec4<f32> = vec4<f32>(0f);
  var v38: vec4<f32> = vec4<f32>(0f);
  let v39 = (P.p2 - 16i);
  let v40 = (i32(u32(((P.p2 - 0i) - 1i)) % u32(16i)) + 1i);
  let v41 = select(P.p2, (v40 - 16i), (0i < P.p2));
  if ((0i < P.p2)) {
    let v42 = min(v21, (v40 - 4i));
    let v43 = (v20 + i32(u32(v42) / u32(4i)));
    let v44 = b0[v43];
    v23 = select(vec4<f32>(0f), v44, vec4<bool>((v21 < v40)));
    let v45 = min(v25, (v40 - 1i));
    let v46 = (v28 + (v45 * v24));
    let v47 = b1[v46];
    v30 = select(vec4<f32>(0f), v47, vec4<bool>((v25 < v40)));
    let v48 = min(v32, (v40 - 1i));
    let v49 = (v28 + (v48 * v24));
    let v50 = b1[v49];
    v34 = select(vec4<f32>(0f), v50, vec4<bool>((v32 < v40)));
    s0[v22 >> 2u][v22 & 3i] = v23.x;
    let v51 = (v22 + 36i);
    s0[v51 >> 2u][v51 & 3i] = v23.y;
    let v52 = (v22 + 72i);
    s0[v52 >> 2u][v52 & 3i] = v23.z;
    let v53 = (v22 + 108i);
    s0[v53 >> 2u][v53 & 3i] = v23.w;
    s1[i32(u32(v29) / u32(4i))] = v30;
    s1[i32(u32(v33) / u32(4i))] = v34;
  }
  workgroupBarrier();
  var v54: i32 = 0i;
  for (var v55: i32 = v41; v55 < P.p2; v55 += 16i) {
    let v56 = min((v55 + 16i), v39);
    let v57 = (v20 + i32(u32((v56 + v21)) / u32(4i)));
    let v58 = b0[v57];
    v23 = v58;
    let v59 = (v28 + ((v56 + v25) * v24));
    let v60 = b1[v59];
    v30 = v60;
    let v61 = (v28 + ((v56 + v32) * v24));
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
    let v100 = min((v56 + 16i), v39);
    let v101 = (v99 * 576i);
    let v102 = (v101 + v22);
    s0[v102 >> 2u][v102 & 3i] = v23.x;
    let v103 = ((v101 + v22) + 36i);
    s0[v103 >> 2u][v103 & 3i] = v23.y;
    let v104 = ((v101 + v22) + 72i);
    s0[v104 >> 2u][v104 & 3i] = v23.z;
    let v105 = ((v101 + v22) + 108i);
    s0[v105 >> 2u][v105 & 3i] = v23.w;
    let v106 = (v99 * 1088i);
    s1[i32(u32((v106 + v29)) / u32(4i))] = v30;
    s1[i32(u32((v106 + v33)) / u32(4i))] = v34;
    workgroupBarrier();
    v54 = v99;
  }
  let v107 = (v9 + v16);
  let v108 = (P.p10 + (min(v107, (P.p1 - 1i)) * P.p9));
  let v109 = b2[v108];
  let v110 = (P.p10 + (min((v107 + 1i), (P.p1 - 1i)) * P.p9));
  let v111 = b2[v110];
  let v112 = (P.p10 + (min((v107 + 2i), (P.p1 - 1i)) * P.p9));
  let v113 = b2[v112];
  let v114 = (P.p10 + (min((v107 + 3i), (P.p1 - 1i)) * P.p9));
  let v115 = b2[v114];
  let v116 = vec4<f32>(v109, v111, v113, v115);
  let v117 = (v8 + v15);
  if (((v117 < P.p0) & (v107 < P.p1))) {
    let v118 = (v117 * P.p1);
    let v119 = (v35 + v116);
    let v120 = ((vec4<f32>(0.5f) * v119) * (vec4<f32>(1f) + erf_f32x4((v119 * vec4<f32>(0.70710677f)))));
    let v121 = i32(u32((v118 + v107)) / u32(4i));
    b3[v121] = v120;
  }
  let v122 = (v8 + (v15 + 1i));
  if (((v122 < P.p0) & (v107 < P.p1))) {
    let v123 = (v122 * P.p1);
    let v124 = (v36 + v116);
    let v125 = ((vec4<f32>(0.5f) * v124) * (vec4<f32>(1f) + erf_f32x4((v124 * vec4<f32>(0.70710677f)))));
    let v126 = i32(u32((v123 + v107)) / u32(4i));
    b3[v126] = v125;
  }
  let v127 = (v8 + (v15 + 2i));
  if (((v127 < P.p0) & (v107 < P.p1))) {
    let v128 = (v127 * P.p1);
    let v129 = (v37 + v116);
    let v130 = ((vec4<f32>(0.5f) * v129) * (vec4<f32>(1f) + erf_f32x4((v129 * vec4<f32>(0.70710677f)))));
    let v131 = i32(u32((v128 + v107)) / u32(4i));
    b3[v131] = v130;
  }
  let v132 = (v8 + (v15 + 3i));
  if (((v132 < P.p0) & (v107 < P.p1))) {
    let v133 = (v132 * P.p1);
    let v134 = (v38 + v116);
    let v135 = ((vec4<f32>(0.5f) * v134) * (vec4<f32>(1f) + erf_f32x4((v134 * vec4<f32>(0.70710677f)))));
    let v136 = i32(u32((v133 + v107)) / u32(4i));
    b3[v136] = v135;
  }
}
