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
  let v17 = i32(u32(v15) / u32(4i));
  let v18 = i32(u32(v16) / u32(4i));
  let v19 = i32(u32(P.p4) / u32(4i));
  let v20 = i32(u32(lid) / u32(4i));
  let v21 = i32(u32(lid) % u32(4i));
  let v22 = i32(u32((P.p5 + (min((v8 + v20), (P.p0 - 1i)) * P.p3))) / u32(4i));
  let v23 = (v21 * 4i);
  let v24 = ((v23 * 36i) + v20);
  let v25 = i32(u32(v24) / u32(4i));
  let v26 = i32(u32(v24) % u32(4i));
  let v27 = (v22 + i32(u32(v23) / u32(4i)));
  var v28: vec4<f32> = vec4<f32>(0f);
  let v29 = i32(u32(P.p6) / u32(4i));
  let v30 = i32(u32(lid) / u32(16i));
  let v31 = i32(u32(lid) % u32(16i));
  let v32 = (lid + 128i);
  let v33 = i32(u32(v32) / u32(16i));
  let v34 = i32(u32(v32) % u32(16i));
  let v35 = (v31 * 4i);
  let v36 = i32(u32((P.p8 + min((v9 + v35), (P.p1 - 4i)))) / u32(4i));
  let v37 = ((v30 * 68i) + v35);
  let v38 = i32(u32(v37) / u32(4i));
  let v39 = (v36 + (v30 * v29));
  var v40: vec4<f32> = vec4<f32>(0f);
  let v41 = (v34 * 4i);
  let v42 = i32(u32((P.p8 + min((v9 + v41), (P.p1 - 4i)))) / u32(4i));
  let v43 = ((v33 * 68i) + v41);
  let v44 = i32(u32(v43) / u32(4i));
  let v45 = (v42 + (v33 * v29));
  var v46: vec4<f32> = vec4<f32>(0f);
  var v47: vec4<f32> = vec4<f32>(0f);
  var v48: vec4<f32> = vec4<f32>(0f);
  var v49: vec4<f32> = vec4<f32>(0f);
  var v50: vec4<f32> = vec4<f32>(0f);
  let v51 = (P.p2 - 16i);
  let v52 = (i32(u32(((P.p2 - 0i) - 1i)) % u32(16i)) + 1i);
  let v53 = select(P.p2, (v52 - 16i), (0i < P.p2));
  if ((0i < P.p2)) {
    let v54 = min(v23, (v52 - 4i));
    let v55 = (v22 + i32(u32(v54) / u32(4i)));
    let v56 = b0[v55];
    v28 = select(vec4<f32>(0f), v56, vec4<bool>((v23 < v52)));
    let v57 = min(v30, (v52 - 1i));
    let v58 = (v36 + (v57 * v29));
    let v59 = b1[v58];
    v40 = select(vec4<f32>(0f), v59, vec4<bool>((v30 < v52)));
    let v60 = min(v33, (v52 - 1i));
    let v61 = (v42 + (v60 * v29));
    let v62 = b1[v61];
    v46 = select(vec4<f32>(0f), v62, vec4<bool>((v33 < v52)));
    s0[v25][v26] = v28.x;
    s0[(v25 + 9i)][v26] = v28.y;
    s0[(v25 + 18i)][v26] = v28.z;
    s0[(v25 + 27i)][v26] = v28.w;
    s1[v38] = v40;
    s1[v44] = v46;
  }
  workgroupBarrier();
  var v63: i32 = 0i;
  for (var v64: i32 = v53; v64 < P.p2; v64 += 16i) {
    let v65 = min((v64 + 16i), v51);
    let v66 = i32(u32(v65) / u32(4i));
    let v67 = (v27 + v66);
    let v68 = b0[v67];
    v28 = v68;
    let v69 = (v65 * v29);
    let v70 = (v39 + v69);
    let v71 = b1[v70];
    v40 = v71;
    let v72 = (v45 + v69);
    let v73 = b1[v72];
    v46 = v73;
    let v74 = (v63 * 144i);
    let v75 = (v63 * 272i);
    let v76 = (v74 + v17);
    let v77 = (v75 + v18);
    let v78 = s0[v76];
    let v79 = s1[v77];
    v47 = fma(vec4<f32>(v78.x), v79, v47);
    v48 = fma(vec4<f32>(v78.y), v79, v48);
    v49 = fma(vec4<f32>(v78.z), v79, v49);
    v50 = fma(vec4<f32>(v78.w), v79, v50);
    let v80 = s0[(v76 + 9i)];
    let v81 = s1[(v77 + 17i)];
    v47 = fma(vec4<f32>(v80.x), v81, v47);
    v48 = fma(vec4<f32>(v80.y), v81, v48);
    v49 = fma(vec4<f32>(v80.z), v81, v49);
    v50 = fma(vec4<f32>(v80.w), v81, v50);
    let v82 = s0[(v76 + 18i)];
    let v83 = s1[(v77 + 34i)];
    v47 = fma(vec4<f32>(v82.x), v83, v47);
    v48 = fma(vec4<f32>(v82.y), v83, v48);
    v49 = fma(vec4<f32>(v82.z), v83, v49);
    v50 = fma(vec4<f32>(v82.w), v83, v50);
    let v84 = s0[(v76 + 27i)];
    let v85 = s1[(v77 + 51i)];
    v47 = fma(vec4<f32>(v84.x), v85, v47);
    v48 = fma(vec4<f32>(v84.y), v85, v48);
    v49 = fma(vec4<f32>(v84.z), v85, v49);
    v50 = fma(vec4<f32>(v84.w), v85, v50);
    let v86 = s0[(v76 + 36i)];
    let v87 = s1[(v77 + 68i)];
    v47 = fma(vec4<f32>(v86.x), v87, v47);
    v48 = fma(vec4<f32>(v86.y), v87, v48);
    v49 = fma(vec4<f32>(v86.z), v87, v49);
    v50 = fma(vec4<f32>(v86.w), v87, v50);
    let v88 = s0[(v76 + 45i)];
    let v89 = s1[(v77 + 85i)];
    v47 = fma(vec4<f32>(v88.x), v89, v47);
    v48 = fma(vec4<f32>(v88.y), v89, v48);
    v49 = fma(vec4<f32>(v88.z), v89, v49);
    v50 = fma(vec4<f32>(v88.w), v89, v50);
    let v90 = s0[(v76 + 54i)];
    let v91 = s1[(v77 + 102i)];
    v47 = fma(vec4<f32>(v90.x), v91, v47);
    v48 = fma(vec4<f32>(v90.y), v91, v48);
    v49 = fma(vec4<f32>(v90.z), v91, v49);
    v50 = fma(vec4<f32>(v90.w), v91, v50);
    let v92 = s0[(v76 + 63i)];
    let v93 = s1[(v77 + 119i)];
    v47 = fma(vec4<f32>(v92.x), v93, v47);
    v48 = fma(vec4<f32>(v92.y), v93, v48);
    v49 = fma(vec4<f32>(v92.z), v93, v49);
    v50 = fma(vec4<f32>(v92.w), v93, v50);
    let v94 = s0[(v76 + 72i)];
    let v95 = s1[(v77 + 136i)];
    v47 = fma(vec4<f32>(v94.x), v95, v47);
    v48 = fma(vec4<f32>(v94.y), v95, v48);
    v49 = fma(vec4<f32>(v94.z), v95, v49);
    v50 = fma(vec4<f32>(v94.w), v95, v50);
    let v96 = s0[(v76 + 81i)];
    let v97 = s1[(v77 + 153i)];
    v47 = fma(vec4<f32>(v96.x), v97, v47);
    v48 = fma(vec4<f32>(v96.y), v97, v48);
    v49 = fma(vec4<f32>(v96.z), v97, v49);
    v50 = fma(vec4<f32>(v96.w), v97, v50);
    let v98 = s0[(v76 + 90i)];
    let v99 = s1[(v77 + 170i)];
    v47 = fma(vec4<f32>(v98.x), v99, v47);
    v48 = fma(vec4<f32>(v98.y), v99, v48);
    v49 = fma(vec4<f32>(v98.z), v99, v49);
    v50 = fma(vec4<f32>(v98.w), v99, v50);
    let v100 = s0[(v76 + 99i)];
    let v101 = s1[(v77 + 187i)];
    v47 = fma(vec4<f32>(v100.x), v101, v47);
    v48 = fma(vec4<f32>(v100.y), v101, v48);
    v49 = fma(vec4<f32>(v100.z), v101, v49);
    v50 = fma(vec4<f32>(v100.w), v101, v50);
    let v102 = s0[(v76 + 108i)];
    let v103 = s1[(v77 + 204i)];
    v47 = fma(vec4<f32>(v102.x), v103, v47);
    v48 = fma(vec4<f32>(v102.y), v103, v48);
    v49 = fma(vec4<f32>(v102.z), v103, v49);
    v50 = fma(vec4<f32>(v102.w), v103, v50);
    let v104 = s0[(v76 + 117i)];
    let v105 = s1[(v77 + 221i)];
    v47 = fma(vec4<f32>(v104.x), v105, v47);
    v48 = fma(vec4<f32>(v104.y), v105, v48);
    v49 = fma(vec4<f32>(v104.z), v105, v49);
    v50 = fma(vec4<f32>(v104.w), v105, v50);
    let v106 = s0[(v76 + 126i)];
    let v107 = s1[(v77 + 238i)];
    v47 = fma(vec4<f32>(v106.x), v107, v47);
    v48 = fma(vec4<f32>(v106.y), v107, v48);
    v49 = fma(vec4<f32>(v106.z), v107, v49);
    v50 = fma(vec4<f32>(v106.w), v107, v50);
    let v108 = s0[(v76 + 135i)];
    let v109 = s1[(v77 + 255i)];
    v47 = fma(vec4<f32>(v108.x), v109, v47);
    v48 = fma(vec4<f32>(v108.y), v109, v48);
    v49 = fma(vec4<f32>(v108.z), v109, v49);
    v50 = fma(vec4<f32>(v108.w), v109, v50);
    let v110 = (1i - v63);
    let v111 = (v110 * 144i);
    let v112 = (v111 + v25);
    s0[v112][v26] = v28.x;
    s0[(v112 + 9i)][v26] = v28.y;
    s0[(v112 + 18i)][v26] = v28.z;
    s0[(v112 + 27i)][v26] = v28.w;
    let v113 = (v110 * 272i);
    let v114 = (v113 + v38);
    s1[v114] = v40;
    let v115 = (v113 + v44);
    s1[v115] = v46;
    workgroupBarrier();
    v63 = v110;
  }
  let v116 = (v9 + v16);
  let v117 = (P.p10 + (min(v116, (P.p1 - 1i)) * P.p9));
  let v118 = b2[v117];
  let v119 = (P.p10 + (min((v116 + 1i), (P.p1 - 1i)) * P.p9));
  let v120 = b2[v119];
  let v121 = (P.p10 + (min((v116 + 2i), (P.p1 - 1i)) * P.p9));
  let v122 = b2[v121];
  let v123 = (P.p10 + (min((v116 + 3i), (P.p1 - 1i)) * P.p9));
  let v124 = b2[v123];
  let v125 = vec4<f32>(v118, v120, v122, v124);
  let v126 = (v8 + v15);
  if (((v126 < P.p0) & (v116 < P.p1))) {
    let v127 = (v126 * P.p1);
    let v128 = (v47 + v125);
    let v129 = i32(u32((v127 + v116)) / u32(4i));
    let v130 = (-v128);
    let v131 = exp(v130);
    let v132 = (v131 + vec4<f32>(1f));
    let v133 = (v128 / v132);
    b3[v129] = v133;
  }
  let v134 = (v8 + (v15 + 1i));
  if (((v134 < P.p0) & (v116 < P.p1))) {
    let v135 = (v134 * P.p1);
    let v136 = (v48 + v125);
    let v137 = i32(u32((v135 + v116)) / u32(4i));
    let v138 = (-v136);
    let v139 = exp(v138);
    let v140 = (v139 + vec4<f32>(1f));
    let v141 = (v136 / v140);
    b3[v137] = v141;
  }
  let v142 = (v8 + (v15 + 2i));
  if (((v142 < P.p0) & (v116 < P.p1))) {
    let v143 = (v142 * P.p1);
    let v144 = (v49 + v125);
    let v145 = i32(u32((v143 + v116)) / u32(4i));
    let v146 = (-v144);
    let v147 = exp(v146);
    let v148 = (v147 + vec4<f32>(1f));
    let v149 = (v144 / v148);
    b3[v145] = v149;
  }
  let v150 = (v8 + (v15 + 3i));
  if (((v150 < P.p0) & (v116 < P.p1))) {
    let v151 = (v150 * P.p1);
    let v152 = (v50 + v125);
    let v153 = i32(u32((v151 + v116)) / u32(4i));
    let v154 = (-v152);
    let v155 = exp(v154);
    let v156 = (v155 + vec4<f32>(1f));
    let v157 = (v152 / v156);
    b3[v153] = v157;
  }
}
