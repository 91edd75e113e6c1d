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
  let v27 = (lid + 128i);
  let v28 = i32(u32(v27) / u32(16i));
  let v29 = i32(u32(v27) % u32(16i));
  let v30 = (v26 * 4i);
  let v31 = i32(u32((P.p8 + min((v9 + v30), (P.p1 - 4i)))) / u32(4i));
  let v32 = ((v25 * 68i) + v30);
  var v33: vec4<f32> = vec4<f32>(0f);
  let v34 = (v29 * 4i);
  let v35 = i32(u32((P.p8 + min((v9 + v34), (P.p1 - 4i)))) / u32(4i));
  let v36 = ((v28 * 68i) + v34);
  var v37: vec4<f32> = vec4<f32>(0f);
  var v38: vec4<f32> = vec4<f32>(0f);
  var v39: vec4<f32> = vec4<f32>(0f);
  var v40: vec4<f32> = vec4<f32>(0f);
  var v41: vec4<f32> = vec4<f32>(0f);
  let v42 = (P.p2 - 16i);
  let v43 = (i32(u32(((P.p2 - 0i) - 1i)) % u32(16i)) + 1i);
  let v44 = select(P.p2, (v43 - 16i), (0i < P.p2));
  if ((0i < P.p2)) {
    let v45 = min(v21, (v43 - 4i));
    let v46 = (v20 + i32(u32(v45) / u32(4i)));
    let v47 = b0[v46];
    v23 = select(vec4<f32>(0f), v47, vec4<bool>((v21 < v43)));
    let v48 = min(v25, (v43 - 1i));
    let v49 = (v31 + (v48 * v24));
    let v50 = b1[v49];
    v33 = select(vec4<f32>(0f), v50, vec4<bool>((v25 < v43)));
    let v51 = min(v28, (v43 - 1i));
    let v52 = (v35 + (v51 * v24));
    let v53 = b1[v52];
    v37 = select(vec4<f32>(0f), v53, vec4<bool>((v28 < v43)));
    s0[v22 >> 2u][v22 & 3i] = v23.x;
    let v54 = (v22 + 36i);
    s0[v54 >> 2u][v54 & 3i] = v23.y;
    let v55 = (v22 + 72i);
    s0[v55 >> 2u][v55 & 3i] = v23.z;
    let v56 = (v22 + 108i);
    s0[v56 >> 2u][v56 & 3i] = v23.w;
    s1[i32(u32(v32) / u32(4i))] = v33;
    s1[i32(u32(v36) / u32(4i))] = v37;
  }
  workgroupBarrier();
  var v57: i32 = 0i;
  for (var v58: i32 = v44; v58 < P.p2; v58 += 16i) {
    let v59 = min((v58 + 16i), v42);
    let v60 = (v20 + i32(u32((v59 + v21)) / u32(4i)));
    let v61 = b0[v60];
    v23 = v61;
    let v62 = (v31 + ((v59 + v25) * v24));
    let v63 = b1[v62];
    v33 = v63;
    let v64 = (v35 + ((v59 + v28) * v24));
    let v65 = b1[v64];
    v37 = v65;
    let v66 = (v57 * 144i);
    let v67 = (v57 * 272i);
    let v68 = (v66 + i32(u32(v15) / u32(4i)));
    let v69 = (v67 + i32(u32(v16) / u32(4i)));
    let v70 = s0[v68];
    let v71 = s1[v69];
    v38 = fma(vec4<f32>(v70.x), v71, v38);
    v39 = fma(vec4<f32>(v70.y), v71, v39);
    v40 = fma(vec4<f32>(v70.z), v71, v40);
    v41 = fma(vec4<f32>(v70.w), v71, v41);
    let v72 = s0[(v68 + 9i)];
    let v73 = s1[(v69 + 17i)];
    v38 = fma(vec4<f32>(v72.x), v73, v38);
    v39 = fma(vec4<f32>(v72.y), v73, v39);
    v40 = fma(vec4<f32>(v72.z), v73, v40);
    v41 = fma(vec4<f32>(v72.w), v73, v41);
    let v74 = s0[(v68 + 18i)];
    let v75 = s1[(v69 + 34i)];
    v38 = fma(vec4<f32>(v74.x), v75, v38);
    v39 = fma(vec4<f32>(v74.y), v75, v39);
    v40 = fma(vec4<f32>(v74.z), v75, v40);
    v41 = fma(vec4<f32>(v74.w), v75, v41);
    let v76 = s0[(v68 + 27i)];
    let v77 = s1[(v69 + 51i)];
    v38 = fma(vec4<f32>(v76.x), v77, v38);
    v39 = fma(vec4<f32>(v76.y), v77, v39);
    v40 = fma(vec4<f32>(v76.z), v77, v40);
    v41 = fma(vec4<f32>(v76.w), v77, v41);
    let v78 = s0[(v68 + 36i)];
    let v79 = s1[(v69 + 68i)];
    v38 = fma(vec4<f32>(v78.x), v79, v38);
    v39 = fma(vec4<f32>(v78.y), v79, v39);
    v40 = fma(vec4<f32>(v78.z), v79, v40);
    v41 = fma(vec4<f32>(v78.w), v79, v41);
    let v80 = s0[(v68 + 45i)];
    let v81 = s1[(v69 + 85i)];
    v38 = fma(vec4<f32>(v80.x), v81, v38);
    v39 = fma(vec4<f32>(v80.y), v81, v39);
    v40 = fma(vec4<f32>(v80.z), v81, v40);
    v41 = fma(vec4<f32>(v80.w), v81, v41);
    let v82 = s0[(v68 + 54i)];
    let v83 = s1[(v69 + 102i)];
    v38 = fma(vec4<f32>(v82.x), v83, v38);
    v39 = fma(vec4<f32>(v82.y), v83, v39);
    v40 = fma(vec4<f32>(v82.z), v83, v40);
    v41 = fma(vec4<f32>(v82.w), v83, v41);
    let v84 = s0[(v68 + 63i)];
    let v85 = s1[(v69 + 119i)];
    v38 = fma(vec4<f32>(v84.x), v85, v38);
    v39 = fma(vec4<f32>(v84.y), v85, v39);
    v40 = fma(vec4<f32>(v84.z), v85, v40);
    v41 = fma(vec4<f32>(v84.w), v85, v41);
    let v86 = s0[(v68 + 72i)];
    let v87 = s1[(v69 + 136i)];
    v38 = fma(vec4<f32>(v86.x), v87, v38);
    v39 = fma(vec4<f32>(v86.y), v87, v39);
    v40 = fma(vec4<f32>(v86.z), v87, v40);
    v41 = fma(vec4<f32>(v86.w), v87, v41);
    let v88 = s0[(v68 + 81i)];
    let v89 = s1[(v69 + 153i)];
    v38 = fma(vec4<f32>(v88.x), v89, v38);
    v39 = fma(vec4<f32>(v88.y), v89, v39);
    v40 = fma(vec4<f32>(v88.z), v89, v40);
    v41 = fma(vec4<f32>(v88.w), v89, v41);
    let v90 = s0[(v68 + 90i)];
    let v91 = s1[(v69 + 170i)];
    v38 = fma(vec4<f32>(v90.x), v91, v38);
    v39 = fma(vec4<f32>(v90.y), v91, v39);
    v40 = fma(vec4<f32>(v90.z), v91, v40);
    v41 = fma(vec4<f32>(v90.w), v91, v41);
    let v92 = s0[(v68 + 99i)];
    let v93 = s1[(v69 + 187i)];
    v38 = fma(vec4<f32>(v92.x), v93, v38);
    v39 = fma(vec4<f32>(v92.y), v93, v39);
    v40 = fma(vec4<f32>(v92.z), v93, v40);
    v41 = fma(vec4<f32>(v92.w), v93, v41);
    let v94 = s0[(v68 + 108i)];
    let v95 = s1[(v69 + 204i)];
    v38 = fma(vec4<f32>(v94.x), v95, v38);
    v39 = fma(vec4<f32>(v94.y), v95, v39);
    v40 = fma(vec4<f32>(v94.z), v95, v40);
    v41 = fma(vec4<f32>(v94.w), v95, v41);
    let v96 = s0[(v68 + 117i)];
    let v97 = s1[(v69 + 221i)];
    v38 = fma(vec4<f32>(v96.x), v97, v38);
    v39 = fma(vec4<f32>(v96.y), v97, v39);
    v40 = fma(vec4<f32>(v96.z), v97, v40);
    v41 = fma(vec4<f32>(v96.w), v97, v41);
    let v98 = s0[(v68 + 126i)];
    let v99 = s1[(v69 + 238i)];
    v38 = fma(vec4<f32>(v98.x), v99, v38);
    v39 = fma(vec4<f32>(v98.y), v99, v39);
    v40 = fma(vec4<f32>(v98.z), v99, v40);
    v41 = fma(vec4<f32>(v98.w), v99, v41);
    let v100 = s0[(v68 + 135i)];
    let v101 = s1[(v69 + 255i)];
    v38 = fma(vec4<f32>(v100.x), v101, v38);
    v39 = fma(vec4<f32>(v100.y), v101, v39);
    v40 = fma(vec4<f32>(v100.z), v101, v40);
    v41 = fma(vec4<f32>(v100.w), v101, v41);
    let v102 = (1i - v57);
    let v103 = (v102 * 576i);
    let v104 = (v103 + v22);
    s0[v104 >> 2u][v104 & 3i] = v23.x;
    let v105 = ((v103 + v22) + 36i);
    s0[v105 >> 2u][v105 & 3i] = v23.y;
    let v106 = ((v103 + v22) + 72i);
    s0[v106 >> 2u][v106 & 3i] = v23.z;
    let v107 = ((v103 + v22) + 108i);
    s0[v107 >> 2u][v107 & 3i] = v23.w;
    let v108 = (v102 * 1088i);
    s1[i32(u32((v108 + v32)) / u32(4i))] = v33;
    s1[i32(u32((v108 + v36)) / u32(4i))] = v37;
    workgroupBarrier();
    v57 = v102;
  }
  let v109 = (v9 + v16);
  let v110 = (P.p10 + (min(v109, (P.p1 - 1i)) * P.p9));
  let v111 = b2[v110];
  let v112 = (P.p10 + (min((v109 + 1i), (P.p1 - 1i)) * P.p9));
  let v113 = b2[v112];
  let v114 = (P.p10 + (min((v109 + 2i), (P.p1 - 1i)) * P.p9));
  let v115 = b2[v114];
  let v116 = (P.p10 + (min((v109 + 3i), (P.p1 - 1i)) * P.p9));
  let v117 = b2[v116];
  let v118 = vec4<f32>(v111, v113, v115, v117);
  let v119 = (v8 + v15);
  if (((v119 < P.p0) & (v109 < P.p1))) {
    let v120 = (v119 * P.p1);
    let v121 = (v38 + v118);
    let v122 = ((vec4<f32>(0.5f) * v121) * (vec4<f32>(1f) + erf_f32x4((v121 * vec4<f32>(0.70710677f)))));
    let v123 = i32(u32((v120 + v109)) / u32(4i));
    b3[v123] = v122;
  }
  let v124 = (v8 + (v15 + 1i));
  if (((v124 < P.p0) & (v109 < P.p1))) {
    let v125 = (v124 * P.p1);
    let v126 = (v39 + v118);
    let v127 = ((vec4<f32>(0.5f) * v126) * (vec4<f32>(1f) + erf_f32x4((v126 * vec4<f32>(0.70710677f)))));
    let v128 = i32(u32((v125 + v109)) / u32(4i));
    b3[v128] = v127;
  }
  let v129 = (v8 + (v15 + 2i));
  if (((v129 < P.p0) & (v109 < P.p1))) {
    let v130 = (v129 * P.p1);
    let v131 = (v40 + v118);
    let v132 = ((vec4<f32>(0.5f) * v131) * (vec4<f32>(1f) + erf_f32x4((v131 * vec4<f32>(0.70710677f)))));
    let v133 = i32(u32((v130 + v109)) / u32(4i));
    b3[v133] = v132;
  }
  let v134 = (v8 + (v15 + 3i));
  if (((v134 < P.p0) & (v109 < P.p1))) {
    let v135 = (v134 * P.p1);
    let v136 = (v41 + v118);
    let v137 = ((vec4<f32>(0.5f) * v136) * (vec4<f32>(1f) + erf_f32x4((v136 * vec4<f32>(0.70710677f)))));
    let v138 = i32(u32((v135 + v109)) / u32(4i));
    b3[v138] = v137;
  }
}
