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
  let c = clamp(x, vec4<f32>(-104.0), vec4<f32>(89.0));
  let n = round(c * vec4<f32>(1.4426950408889634));
  let r = fma(n, vec4<f32>(-1.4286068203094173e-06), fma(n, vec4<f32>(-0.693145751953125), c));
  var p = vec4<f32>(0.001393454265780747);
  p = fma(p, r, vec4<f32>(0.008363776840269566));
  p = fma(p, r, vec4<f32>(0.04166645556688309));
  p = fma(p, r, vec4<f32>(0.16666573286056519));
  p = fma(p, r, vec4<f32>(0.5));
  p = fma(p, r * r, r) + vec4<f32>(1.0);
  let i = vec4<i32>(n);
  let h = i / vec4<i32>(2);
  let y = p * bitcast<vec4<f32>>((h + vec4<i32>(127)) << vec4<u32>(23u)) * bitcast<vec4<f32>>((i - h + vec4<i32>(127)) << vec4<u32>(23u));
  return select(y, x, is_nan_f32x4(x));
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
  let v13 = ((i32(u32(v11) / u32(2i)) * 16i) + (i32(u32(v12) / u32(8i)) * 4i));
  let v14 = ((i32(u32(v11) % u32(2i)) * 32i) + (i32(u32(v12) % u32(8i)) * 4i));
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
  if ((0i < P.p2)) {
    let v37 = min(v17, (P.p2 - 4i));
    let v38 = (v18 + i32(u32(v37) / u32(4i)));
    let v39 = b0[v38];
    v20 = select(vec4<f32>(0f), v39, vec4<bool>((v17 < P.p2)));
    let v40 = min(v22, (P.p2 - 1i));
    let v41 = (v24 + (v40 * v21));
    let v42 = b1[v41];
    v26 = select(vec4<f32>(0f), v42, vec4<bool>((v22 < P.p2)));
    let v43 = min(v28, (P.p2 - 1i));
    let v44 = (v30 + (v43 * v21));
    let v45 = b1[v44];
    v32 = select(vec4<f32>(0f), v45, vec4<bool>((v28 < P.p2)));
    s0[v19 >> 2u][v19 & 3i] = v20.x;
    let v46 = (v19 + 36i);
    s0[v46 >> 2u][v46 & 3i] = v20.y;
    let v47 = (v19 + 72i);
    s0[v47 >> 2u][v47 & 3i] = v20.z;
    let v48 = (v19 + 108i);
    s0[v48 >> 2u][v48 & 3i] = v20.w;
    s1[i32(u32(v25) / u32(4i))] = v26;
    s1[i32(u32(v31) / u32(4i))] = v32;
  }
  workgroupBarrier();
  var v49: i32 = 0i;
  for (var v50: i32 = 0i; v50 < P.p2; v50 += 16i) {
    let v51 = select(v50, (v50 + 16i), ((v50 + 16i) < P.p2));
    let v52 = (v51 + v17);
    let v53 = min(v52, (P.p2 - 4i));
    let v54 = (v18 + i32(u32(v53) / u32(4i)));
    let v55 = b0[v54];
    v20 = select(vec4<f32>(0f), v55, vec4<bool>((v52 < P.p2)));
    let v56 = (v51 + v22);
    let v57 = min(v56, (P.p2 - 1i));
    let v58 = (v24 + (v57 * v21));
    let v59 = b1[v58];
    v26 = select(vec4<f32>(0f), v59, vec4<bool>((v56 < P.p2)));
    let v60 = (v51 + v28);
    let v61 = min(v60, (P.p2 - 1i));
    let v62 = (v30 + (v61 * v21));
    let v63 = b1[v62];
    v32 = select(vec4<f32>(0f), v63, vec4<bool>((v60 < P.p2)));
    let v64 = (v49 * 144i);
    let v65 = (v49 * 272i);
    let v66 = (v64 + i32(u32(v13) / u32(4i)));
    let v67 = (v65 + i32(u32(v14) / u32(4i)));
    let v68 = s0[v66];
    let v69 = s1[v67];
    v33 = fma(vec4<f32>(v68.x), v69, v33);
    v34 = fma(vec4<f32>(v68.y), v69, v34);
    v35 = fma(vec4<f32>(v68.z), v69, v35);
    v36 = fma(vec4<f32>(v68.w), v69, v36);
    let v70 = s0[(v66 + 9i)];
    let v71 = s1[(v67 + 17i)];
    v33 = fma(vec4<f32>(v70.x), v71, v33);
    v34 = fma(vec4<f32>(v70.y), v71, v34);
    v35 = fma(vec4<f32>(v70.z), v71, v35);
    v36 = fma(vec4<f32>(v70.w), v71, v36);
    let v72 = s0[(v66 + 18i)];
    let v73 = s1[(v67 + 34i)];
    v33 = fma(vec4<f32>(v72.x), v73, v33);
    v34 = fma(vec4<f32>(v72.y), v73, v34);
    v35 = fma(vec4<f32>(v72.z), v73, v35);
    v36 = fma(vec4<f32>(v72.w), v73, v36);
    let v74 = s0[(v66 + 27i)];
    let v75 = s1[(v67 + 51i)];
    v33 = fma(vec4<f32>(v74.x), v75, v33);
    v34 = fma(vec4<f32>(v74.y), v75, v34);
    v35 = fma(vec4<f32>(v74.z), v75, v35);
    v36 = fma(vec4<f32>(v74.w), v75, v36);
    let v76 = s0[(v66 + 36i)];
    let v77 = s1[(v67 + 68i)];
    v33 = fma(vec4<f32>(v76.x), v77, v33);
    v34 = fma(vec4<f32>(v76.y), v77, v34);
    v35 = fma(vec4<f32>(v76.z), v77, v35);
    v36 = fma(vec4<f32>(v76.w), v77, v36);
    let v78 = s0[(v66 + 45i)];
    let v79 = s1[(v67 + 85i)];
    v33 = fma(vec4<f32>(v78.x), v79, v33);
    v34 = fma(vec4<f32>(v78.y), v79, v34);
    v35 = fma(vec4<f32>(v78.z), v79, v35);
    v36 = fma(vec4<f32>(v78.w), v79, v36);
    let v80 = s0[(v66 + 54i)];
    let v81 = s1[(v67 + 102i)];
    v33 = fma(vec4<f32>(v80.x), v81, v33);
    v34 = fma(vec4<f32>(v80.y), v81, v34);
    v35 = fma(vec4<f32>(v80.z), v81, v35);
    v36 = fma(vec4<f32>(v80.w), v81, v36);
    let v82 = s0[(v66 + 63i)];
    let v83 = s1[(v67 + 119i)];
    v33 = fma(vec4<f32>(v82.x), v83, v33);
    v34 = fma(vec4<f32>(v82.y), v83, v34);
    v35 = fma(vec4<f32>(v82.z), v83, v35);
    v36 = fma(vec4<f32>(v82.w), v83, v36);
    let v84 = s0[(v66 + 72i)];
    let v85 = s1[(v67 + 136i)];
    v33 = fma(vec4<f32>(v84.x), v85, v33);
    v34 = fma(vec4<f32>(v84.y), v85, v34);
    v35 = fma(vec4<f32>(v84.z), v85, v35);
    v36 = fma(vec4<f32>(v84.w), v85, v36);
    let v86 = s0[(v66 + 81i)];
    let v87 = s1[(v67 + 153i)];
    v33 = fma(vec4<f32>(v86.x), v87, v33);
    v34 = fma(vec4<f32>(v86.y), v87, v34);
    v35 = fma(vec4<f32>(v86.z), v87, v35);
    v36 = fma(vec4<f32>(v86.w), v87, v36);
    let v88 = s0[(v66 + 90i)];
    let v89 = s1[(v67 + 170i)];
    v33 = fma(vec4<f32>(v88.x), v89, v33);
    v34 = fma(vec4<f32>(v88.y), v89, v34);
    v35 = fma(vec4<f32>(v88.z), v89, v35);
    v36 = fma(vec4<f32>(v88.w), v89, v36);
    let v90 = s0[(v66 + 99i)];
    let v91 = s1[(v67 + 187i)];
    v33 = fma(vec4<f32>(v90.x), v91, v33);
    v34 = fma(vec4<f32>(v90.y), v91, v34);
    v35 = fma(vec4<f32>(v90.z), v91, v35);
    v36 = fma(vec4<f32>(v90.w), v91, v36);
    let v92 = s0[(v66 + 108i)];
    let v93 = s1[(v67 + 204i)];
    v33 = fma(vec4<f32>(v92.x), v93, v33);
    v34 = fma(vec4<f32>(v92.y), v93, v34);
    v35 = fma(vec4<f32>(v92.z), v93, v35);
    v36 = fma(vec4<f32>(v92.w), v93, v36);
    let v94 = s0[(v66 + 117i)];
    let v95 = s1[(v67 + 221i)];
    v33 = fma(vec4<f32>(v94.x), v95, v33);
    v34 = fma(vec4<f32>(v94.y), v95, v34);
    v35 = fma(vec4<f32>(v94.z), v95, v35);
    v36 = fma(vec4<f32>(v94.w), v95, v36);
    let v96 = s0[(v66 + 126i)];
    let v97 = s1[(v67 + 238i)];
    v33 = fma(vec4<f32>(v96.x), v97, v33);
    v34 = fma(vec4<f32>(v96.y), v97, v34);
    v35 = fma(vec4<f32>(v96.z), v97, v35);
    v36 = fma(vec4<f32>(v96.w), v97, v36);
    let v98 = s0[(v66 + 135i)];
    let v99 = s1[(v67 + 255i)];
    v33 = fma(vec4<f32>(v98.x), v99, v33);
    v34 = fma(vec4<f32>(v98.y), v99, v34);
    v35 = fma(vec4<f32>(v98.z), v99, v35);
    v36 = fma(vec4<f32>(v98.w), v99, v36);
    let v100 = (1i - v49);
    let v101 = (v100 * 576i);
    let v102 = (v101 + v19);
    s0[v102 >> 2u][v102 & 3i] = v20.x;
    let v103 = ((v101 + v19) + 36i);
    s0[v103 >> 2u][v103 & 3i] = v20.y;
    let v104 = ((v101 + v19) + 72i);
    s0[v104 >> 2u][v104 & 3i] = v20.z;
    let v105 = ((v101 + v19) + 108i);
    s0[v105 >> 2u][v105 & 3i] = v20.w;
    let v106 = (v100 * 1088i);
    s1[i32(u32((v106 + v25)) / u32(4i))] = v26;
    s1[i32(u32((v106 + v31)) / u32(4i))] = v32;
    workgroupBarrier();
    v49 = v100;
  }
  let v107 = (v9 + v14);
  let v108 = (P.p10 + (min(v107, (P.p1 - 1i)) * P.p9));
  let v109 = b2[v108];
  let v110 = (P.p10 + (min((v107 + 1i), (P.p1 - 1i)) * P.p9));
  let v111 = b2[v110];
  let v112 = (P.p10 + (min((v107 + 2i), (P.p1 - 1i)) * P.p9));
  let v113 = b2[v112];
  let v114 = (P.p10 + (min((v107 + 3i), (P.p1 - 1i)) * P.p9));
  let v115 = b2[v114];
  let v116 = vec4<f32>(v109, v111, v113, v115);
  let v117 = (v8 + v13);
  if (((v117 < P.p0) & (v107 < P.p1))) {
    let v118 = (v117 * P.p1);
    let v119 = (v33 + v116);
    let v120 = ((vec4<f32>(0.5f) * v119) * (vec4<f32>(1f) + erf_f32x4((v119 * vec4<f32>(0.70710677f)))));
    let v121 = i32(u32((v118 + v107)) / u32(4i));
    b3[v121] = v120;
  }
  let v122 = (v8 + (v13 + 1i));
  if (((v122 < P.p0) & (v107 < P.p1))) {
    let v123 = (v122 * P.p1);
    let v124 = (v34 + v116);
    let v125 = ((vec4<f32>(0.5f) * v124) * (vec4<f32>(1f) + erf_f32x4((v124 * vec4<f32>(0.70710677f)))));
    let v126 = i32(u32((v123 + v107)) / u32(4i));
    b3[v126] = v125;
  }
  let v127 = (v8 + (v13 + 2i));
  if (((v127 < P.p0) & (v107 < P.p1))) {
    let v128 = (v127 * P.p1);
    let v129 = (v35 + v116);
    let v130 = ((vec4<f32>(0.5f) * v129) * (vec4<f32>(1f) + erf_f32x4((v129 * vec4<f32>(0.70710677f)))));
    let v131 = i32(u32((v128 + v107)) / u32(4i));
    b3[v131] = v130;
  }
  let v132 = (v8 + (v13 + 3i));
  if (((v132 < P.p0) & (v107 < P.p1))) {
    let v133 = (v132 * P.p1);
    let v134 = (v36 + v116);
    let v135 = ((vec4<f32>(0.5f) * v134) * (vec4<f32>(1f) + erf_f32x4((v134 * vec4<f32>(0.70710677f)))));
    let v136 = i32(u32((v133 + v107)) / u32(4i));
    b3[v136] = v135;
  }
}
