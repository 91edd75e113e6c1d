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
  let v13 = ((i32(u32(v11) / u32(2i)) * 16i) + (((i32(u32(v12) / u32(16i)) * 2i) + i32(u32(v12) % u32(2i))) * 4i));
  let v14 = ((i32(u32(v11) % u32(2i)) * 32i) + (i32(u32(i32(u32(v12) / u32(2i))) % u32(8i)) * 4i));
  let v15 = i32(u32(P.p4) / u32(4i));
  let v16 = i32(u32(lid) / u32(4i));
  let v17 = (i32(u32(lid) % u32(4i)) * 4i);
  let v18 = i32(u32((P.p5 + (min((v8 + v16), (P.p0 - 1i)) * P.p3))) / u32(4i));
  let v19 = ((v17 * 36i) + v16);
  var v20: vec4<f32> = vec4<f32>(0f);
  let v21 = i32(u32(P.p6) / u32(4i));
  let v22 = i32(u32(lid) / u32(16i));
  let v23 = (i32(u32(lid) % u32(16i)) * 4i);
  let v24 = i32(u32((P.p8 + min((v9 + v23), (P.p1 - 4i)))) / u32(4i));
  let v25 = ((v22 * 68i) + v23);
  var v26: vec4<f32> = vec4<f32>(0f);
  let v27 = (lid + 128i);
  let v28 = i32(u32(v27) / u32(16i));
  let v29 = (i32(u32(v27) % u32(16i)) * 4i);
  let v30 = i32(u32((P.p8 + min((v9 + v29), (P.p1 - 4i)))) / u32(4i));
  let v31 = ((v28 * 68i) + v29);
  var v32: vec4<f32> = vec4<f32>(0f);
  var v33: vec4<f32> = vec4<f32>(0f);
  var v34: vec4<f32> = vec4<f32>(0f);
  var v35: vec4<f32> = vec4<f32>(0f);
  var v36: vec4<f32> = vec4<f32>(0f);
  let v37 = (P.p2 - 16i);
  let v38 = (i32(u32(((P.p2 - 0i) - 1i)) % u32(16i)) + 1i);
  let v39 = select(P.p2, (v38 - 16i), (0i < P.p2));
  if ((0i < P.p2)) {
    let v40 = min(v17, (v38 - 4i));
    let v41 = (v18 + i32(u32(v40) / u32(4i)));
    let v42 = b0[v41];
    v20 = select(vec4<f32>(0f), v42, vec4<bool>((v17 < v38)));
    let v43 = min(v22, (v38 - 1i));
    let v44 = (v24 + (v43 * v21));
    let v45 = b1[v44];
    v26 = select(vec4<f32>(0f), v45, vec4<bool>((v22 < v38)));
    let v46 = min(v28, (v38 - 1i));
    let v47 = (v30 + (v46 * v21));
    let v48 = b1[v47];
    v32 = select(vec4<f32>(0f), v48, vec4<bool>((v28 < v38)));
    s0[v19 >> 2u][v19 & 3i] = v20.x;
    let v49 = (v19 + 36i);
    s0[v49 >> 2u][v49 & 3i] = v20.y;
    let v50 = (v19 + 72i);
    s0[v50 >> 2u][v50 & 3i] = v20.z;
    let v51 = (v19 + 108i);
    s0[v51 >> 2u][v51 & 3i] = v20.w;
    s1[i32(u32(v25) / u32(4i))] = v26;
    s1[i32(u32(v31) / u32(4i))] = v32;
  }
  workgroupBarrier();
  var v52: i32 = 0i;
  for (var v53: i32 = v39; v53 < P.p2; v53 += 16i) {
    let v54 = min((v53 + 16i), v37);
    let v55 = (v18 + i32(u32((v54 + v17)) / u32(4i)));
    let v56 = b0[v55];
    v20 = v56;
    let v57 = (v24 + ((v54 + v22) * v21));
    let v58 = b1[v57];
    v26 = v58;
    let v59 = (v30 + ((v54 + v28) * v21));
    let v60 = b1[v59];
    v32 = v60;
    let v61 = (v52 * 144i);
    let v62 = (v52 * 272i);
    let v63 = (v61 + i32(u32(v13) / u32(4i)));
    let v64 = (v62 + i32(u32(v14) / u32(4i)));
    let v65 = s0[v63];
    let v66 = s1[v64];
    v33 = fma(vec4<f32>(v65.x), v66, v33);
    v34 = fma(vec4<f32>(v65.y), v66, v34);
    v35 = fma(vec4<f32>(v65.z), v66, v35);
    v36 = fma(vec4<f32>(v65.w), v66, v36);
    let v67 = s0[(v63 + 9i)];
    let v68 = s1[(v64 + 17i)];
    v33 = fma(vec4<f32>(v67.x), v68, v33);
    v34 = fma(vec4<f32>(v67.y), v68, v34);
    v35 = fma(vec4<f32>(v67.z), v68, v35);
    v36 = fma(vec4<f32>(v67.w), v68, v36);
    let v69 = s0[(v63 + 18i)];
    let v70 = s1[(v64 + 34i)];
    v33 = fma(vec4<f32>(v69.x), v70, v33);
    v34 = fma(vec4<f32>(v69.y), v70, v34);
    v35 = fma(vec4<f32>(v69.z), v70, v35);
    v36 = fma(vec4<f32>(v69.w), v70, v36);
    let v71 = s0[(v63 + 27i)];
    let v72 = s1[(v64 + 51i)];
    v33 = fma(vec4<f32>(v71.x), v72, v33);
    v34 = fma(vec4<f32>(v71.y), v72, v34);
    v35 = fma(vec4<f32>(v71.z), v72, v35);
    v36 = fma(vec4<f32>(v71.w), v72, v36);
    let v73 = s0[(v63 + 36i)];
    let v74 = s1[(v64 + 68i)];
    v33 = fma(vec4<f32>(v73.x), v74, v33);
    v34 = fma(vec4<f32>(v73.y), v74, v34);
    v35 = fma(vec4<f32>(v73.z), v74, v35);
    v36 = fma(vec4<f32>(v73.w), v74, v36);
    let v75 = s0[(v63 + 45i)];
    let v76 = s1[(v64 + 85i)];
    v33 = fma(vec4<f32>(v75.x), v76, v33);
    v34 = fma(vec4<f32>(v75.y), v76, v34);
    v35 = fma(vec4<f32>(v75.z), v76, v35);
    v36 = fma(vec4<f32>(v75.w), v76, v36);
    let v77 = s0[(v63 + 54i)];
    let v78 = s1[(v64 + 102i)];
    v33 = fma(vec4<f32>(v77.x), v78, v33);
    v34 = fma(vec4<f32>(v77.y), v78, v34);
    v35 = fma(vec4<f32>(v77.z), v78, v35);
    v36 = fma(vec4<f32>(v77.w), v78, v36);
    let v79 = s0[(v63 + 63i)];
    let v80 = s1[(v64 + 119i)];
    v33 = fma(vec4<f32>(v79.x), v80, v33);
    v34 = fma(vec4<f32>(v79.y), v80, v34);
    v35 = fma(vec4<f32>(v79.z), v80, v35);
    v36 = fma(vec4<f32>(v79.w), v80, v36);
    let v81 = s0[(v63 + 72i)];
    let v82 = s1[(v64 + 136i)];
    v33 = fma(vec4<f32>(v81.x), v82, v33);
    v34 = fma(vec4<f32>(v81.y), v82, v34);
    v35 = fma(vec4<f32>(v81.z), v82, v35);
    v36 = fma(vec4<f32>(v81.w), v82, v36);
    let v83 = s0[(v63 + 81i)];
    let v84 = s1[(v64 + 153i)];
    v33 = fma(vec4<f32>(v83.x), v84, v33);
    v34 = fma(vec4<f32>(v83.y), v84, v34);
    v35 = fma(vec4<f32>(v83.z), v84, v35);
    v36 = fma(vec4<f32>(v83.w), v84, v36);
    let v85 = s0[(v63 + 90i)];
    let v86 = s1[(v64 + 170i)];
    v33 = fma(vec4<f32>(v85.x), v86, v33);
    v34 = fma(vec4<f32>(v85.y), v86, v34);
    v35 = fma(vec4<f32>(v85.z), v86, v35);
    v36 = fma(vec4<f32>(v85.w), v86, v36);
    let v87 = s0[(v63 + 99i)];
    let v88 = s1[(v64 + 187i)];
    v33 = fma(vec4<f32>(v87.x), v88, v33);
    v34 = fma(vec4<f32>(v87.y), v88, v34);
    v35 = fma(vec4<f32>(v87.z), v88, v35);
    v36 = fma(vec4<f32>(v87.w), v88, v36);
    let v89 = s0[(v63 + 108i)];
    let v90 = s1[(v64 + 204i)];
    v33 = fma(vec4<f32>(v89.x), v90, v33);
    v34 = fma(vec4<f32>(v89.y), v90, v34);
    v35 = fma(vec4<f32>(v89.z), v90, v35);
    v36 = fma(vec4<f32>(v89.w), v90, v36);
    let v91 = s0[(v63 + 117i)];
    let v92 = s1[(v64 + 221i)];
    v33 = fma(vec4<f32>(v91.x), v92, v33);
    v34 = fma(vec4<f32>(v91.y), v92, v34);
    v35 = fma(vec4<f32>(v91.z), v92, v35);
    v36 = fma(vec4<f32>(v91.w), v92, v36);
    let v93 = s0[(v63 + 126i)];
    let v94 = s1[(v64 + 238i)];
    v33 = fma(vec4<f32>(v93.x), v94, v33);
    v34 = fma(vec4<f32>(v93.y), v94, v34);
    v35 = fma(vec4<f32>(v93.z), v94, v35);
    v36 = fma(vec4<f32>(v93.w), v94, v36);
    let v95 = s0[(v63 + 135i)];
    let v96 = s1[(v64 + 255i)];
    v33 = fma(vec4<f32>(v95.x), v96, v33);
    v34 = fma(vec4<f32>(v95.y), v96, v34);
    v35 = fma(vec4<f32>(v95.z), v96, v35);
    v36 = fma(vec4<f32>(v95.w), v96, v36);
    let v97 = (1i - v52);
    let v98 = (v97 * 576i);
    let v99 = (v98 + v19);
    s0[v99 >> 2u][v99 & 3i] = v20.x;
    let v100 = ((v98 + v19) + 36i);
    s0[v100 >> 2u][v100 & 3i] = v20.y;
    let v101 = ((v98 + v19) + 72i);
    s0[v101 >> 2u][v101 & 3i] = v20.z;
    let v102 = ((v98 + v19) + 108i);
    s0[v102 >> 2u][v102 & 3i] = v20.w;
    let v103 = (v97 * 1088i);
    s1[i32(u32((v103 + v25)) / u32(4i))] = v26;
    s1[i32(u32((v103 + v31)) / u32(4i))] = v32;
    workgroupBarrier();
    v52 = v97;
  }
  let v104 = (v9 + v14);
  let v105 = (P.p10 + (min(v104, (P.p1 - 1i)) * P.p9));
  let v106 = b2[v105];
  let v107 = (P.p10 + (min((v104 + 1i), (P.p1 - 1i)) * P.p9));
  let v108 = b2[v107];
  let v109 = (P.p10 + (min((v104 + 2i), (P.p1 - 1i)) * P.p9));
  let v110 = b2[v109];
  let v111 = (P.p10 + (min((v104 + 3i), (P.p1 - 1i)) * P.p9));
  let v112 = b2[v111];
  let v113 = vec4<f32>(v106, v108, v110, v112);
  let v114 = (v8 + v13);
  if (((v114 < P.p0) & (v104 < P.p1))) {
    let v115 = (v114 * P.p1);
    let v116 = (v33 + v113);
    let v117 = ((vec4<f32>(0.5f) * v116) * (vec4<f32>(1f) + erf_f32x4((v116 * vec4<f32>(0.70710677f)))));
    let v118 = i32(u32((v115 + v104)) / u32(4i));
    b3[v118] = v117;
  }
  let v119 = (v8 + (v13 + 1i));
  if (((v119 < P.p0) & (v104 < P.p1))) {
    let v120 = (v119 * P.p1);
    let v121 = (v34 + v113);
    let v122 = ((vec4<f32>(0.5f) * v121) * (vec4<f32>(1f) + erf_f32x4((v121 * vec4<f32>(0.70710677f)))));
    let v123 = i32(u32((v120 + v104)) / u32(4i));
    b3[v123] = v122;
  }
  let v124 = (v8 + (v13 + 2i));
  if (((v124 < P.p0) & (v104 < P.p1))) {
    let v125 = (v124 * P.p1);
    let v126 = (v35 + v113);
    let v127 = ((vec4<f32>(0.5f) * v126) * (vec4<f32>(1f) + erf_f32x4((v126 * vec4<f32>(0.70710677f)))));
    let v128 = i32(u32((v125 + v104)) / u32(4i));
    b3[v128] = v127;
  }
  let v129 = (v8 + (v13 + 3i));
  if (((v129 < P.p0) & (v104 < P.p1))) {
    let v130 = (v129 * P.p1);
    let v131 = (v36 + v113);
    let v132 = ((vec4<f32>(0.5f) * v131) * (vec4<f32>(1f) + erf_f32x4((v131 * vec4<f32>(0.70710677f)))));
    let v133 = i32(u32((v130 + v104)) / u32(4i));
    b3[v133] = v132;
  }
}
