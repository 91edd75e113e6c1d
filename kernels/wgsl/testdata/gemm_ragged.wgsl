@group(0) @binding(0) var<storage, read> b0: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> b1: array<f32>;
@group(0) @binding(2) var<storage, read> b2: array<f32>;
@group(0) @binding(3) var<storage, read> b3: array<f32>;
@group(0) @binding(4) var<storage, read_write> b4: array<f32>;
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
@group(0) @binding(5) var<uniform> P: Params;
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
  let v24 = i32(u32(lid) / u32(64i));
  let v25 = i32(u32(lid) % u32(64i));
  let v26 = (P.p8 + (min((v9 + v25), (P.p1 - 1i)) * P.p7));
  let v27 = ((v24 * 68i) + v25);
  var v28: f32 = 0f;
  let v29 = (v24 + 2i);
  let v30 = ((v29 * 68i) + v25);
  var v31: f32 = 0f;
  let v32 = (v24 + 4i);
  let v33 = ((v32 * 68i) + v25);
  var v34: f32 = 0f;
  let v35 = (v24 + 6i);
  let v36 = ((v35 * 68i) + v25);
  var v37: f32 = 0f;
  let v38 = (v24 + 8i);
  let v39 = ((v38 * 68i) + v25);
  var v40: f32 = 0f;
  let v41 = (v24 + 10i);
  let v42 = ((v41 * 68i) + v25);
  var v43: f32 = 0f;
  let v44 = (v24 + 12i);
  let v45 = ((v44 * 68i) + v25);
  var v46: f32 = 0f;
  let v47 = (v24 + 14i);
  let v48 = ((v47 * 68i) + v25);
  var v49: f32 = 0f;
  var v50: vec4<f32> = vec4<f32>(0f);
  var v51: vec4<f32> = vec4<f32>(0f);
  var v52: vec4<f32> = vec4<f32>(0f);
  var v53: vec4<f32> = vec4<f32>(0f);
  let v54 = (P.p2 - 16i);
  let v55 = (i32(u32(((P.p2 - 0i) - 1i)) % u32(16i)) + 1i);
  let v56 = select(P.p2, (v55 - 16i), (0i < P.p2));
  if ((0i < P.p2)) {
    let v57 = min(v21, (v55 - 4i));
    let v58 = (v20 + i32(u32(v57) / u32(4i)));
    let v59 = b0[v58];
    v23 = select(vec4<f32>(0f), v59, vec4<bool>((v21 < v55)));
    let v60 = min(v24, (v55 - 1i));
    let v61 = (v26 + (v60 * P.p6));
    let v62 = b1[v61];
    v28 = select(0f, v62, (v24 < v55));
    let v63 = min(v29, (v55 - 1i));
    let v64 = (v26 + (v63 * P.p6));
    let v65 = b1[v64];
    v31 = select(0f, v65, (v29 < v55));
    let v66 = min(v32, (v55 - 1i));
    let v67 = (v26 + (v66 * P.p6));
    let v68 = b1[v67];
    v34 = select(0f, v68, (v32 < v55));
    let v69 = min(v35, (v55 - 1i));
    let v70 = (v26 + (v69 * P.p6));
    let v71 = b1[v70];
    v37 = select(0f, v71, (v35 < v55));
    let v72 = min(v38, (v55 - 1i));
    let v73 = (v26 + (v72 * P.p6));
    let v74 = b1[v73];
    v40 = select(0f, v74, (v38 < v55));
    let v75 = min(v41, (v55 - 1i));
    let v76 = (v26 + (v75 * P.p6));
    let v77 = b1[v76];
    v43 = select(0f, v77, (v41 < v55));
    let v78 = min(v44, (v55 - 1i));
    let v79 = (v26 + (v78 * P.p6));
    let v80 = b1[v79];
    v46 = select(0f, v80, (v44 < v55));
    let v81 = min(v47, (v55 - 1i));
    let v82 = (v26 + (v81 * P.p6));
    let v83 = b1[v82];
    v49 = select(0f, v83, (v47 < v55));
    s0[v22 >> 2u][v22 & 3i] = v23.x;
    let v84 = (v22 + 36i);
    s0[v84 >> 2u][v84 & 3i] = v23.y;
    let v85 = (v22 + 72i);
    s0[v85 >> 2u][v85 & 3i] = v23.z;
    let v86 = (v22 + 108i);
    s0[v86 >> 2u][v86 & 3i] = v23.w;
    s1[v27 >> 2u][v27 & 3i] = v28;
    s1[v30 >> 2u][v30 & 3i] = v31;
    s1[v33 >> 2u][v33 & 3i] = v34;
    s1[v36 >> 2u][v36 & 3i] = v37;
    s1[v39 >> 2u][v39 & 3i] = v40;
    s1[v42 >> 2u][v42 & 3i] = v43;
    s1[v45 >> 2u][v45 & 3i] = v46;
    s1[v48 >> 2u][v48 & 3i] = v49;
  }
  workgroupBarrier();
  var v87: i32 = 0i;
  for (var v88: i32 = v56; v88 < P.p2; v88 += 16i) {
    let v89 = min((v88 + 16i), v54);
    let v90 = (v20 + i32(u32((v89 + v21)) / u32(4i)));
    let v91 = b0[v90];
    v23 = v91;
    let v92 = (v26 + ((v89 + v24) * P.p6));
    let v93 = b1[v92];
    v28 = v93;
    let v94 = (v26 + ((v89 + v29) * P.p6));
    let v95 = b1[v94];
    v31 = v95;
    let v96 = (v26 + ((v89 + v32) * P.p6));
    let v97 = b1[v96];
    v34 = v97;
    let v98 = (v26 + ((v89 + v35) * P.p6));
    let v99 = b1[v98];
    v37 = v99;
    let v100 = (v26 + ((v89 + v38) * P.p6));
    let v101 = b1[v100];
    v40 = v101;
    let v102 = (v26 + ((v89 + v41) * P.p6));
    let v103 = b1[v102];
    v43 = v103;
    let v104 = (v26 + ((v89 + v44) * P.p6));
    let v105 = b1[v104];
    v46 = v105;
    let v106 = (v26 + ((v89 + v47) * P.p6));
    let v107 = b1[v106];
    v49 = v107;
    let v108 = (v87 * 144i);
    let v109 = (v87 * 272i);
    let v110 = (v108 + i32(u32(v15) / u32(4i)));
    let v111 = (v109 + i32(u32(v16) / u32(4i)));
    let v112 = s0[v110];
    let v113 = s1[v111];
    v50 = fma(vec4<f32>(v112.x), v113, v50);
    v51 = fma(vec4<f32>(v112.y), v113, v51);
    v52 = fma(vec4<f32>(v112.z), v113, v52);
    v53 = fma(vec4<f32>(v112.w), v113, v53);
    let v114 = s0[(v110 + 9i)];
    let v115 = s1[(v111 + 17i)];
    v50 = fma(vec4<f32>(v114.x), v115, v50);
    v51 = fma(vec4<f32>(v114.y), v115, v51);
    v52 = fma(vec4<f32>(v114.z), v115, v52);
    v53 = fma(vec4<f32>(v114.w), v115, v53);
    let v116 = s0[(v110 + 18i)];
    let v117 = s1[(v111 + 34i)];
    v50 = fma(vec4<f32>(v116.x), v117, v50);
    v51 = fma(vec4<f32>(v116.y), v117, v51);
    v52 = fma(vec4<f32>(v116.z), v117, v52);
    v53 = fma(vec4<f32>(v116.w), v117, v53);
    let v118 = s0[(v110 + 27i)];
    let v119 = s1[(v111 + 51i)];
    v50 = fma(vec4<f32>(v118.x), v119, v50);
    v51 = fma(vec4<f32>(v118.y), v119, v51);
    v52 = fma(vec4<f32>(v118.z), v119, v52);
    v53 = fma(vec4<f32>(v118.w), v119, v53);
    let v120 = s0[(v110 + 36i)];
    let v121 = s1[(v111 + 68i)];
    v50 = fma(vec4<f32>(v120.x), v121, v50);
    v51 = fma(vec4<f32>(v120.y), v121, v51);
    v52 = fma(vec4<f32>(v120.z), v121, v52);
    v53 = fma(vec4<f32>(v120.w), v121, v53);
    let v122 = s0[(v110 + 45i)];
    let v123 = s1[(v111 + 85i)];
    v50 = fma(vec4<f32>(v122.x), v123, v50);
    v51 = fma(vec4<f32>(v122.y), v123, v51);
    v52 = fma(vec4<f32>(v122.z), v123, v52);
    v53 = fma(vec4<f32>(v122.w), v123, v53);
    let v124 = s0[(v110 + 54i)];
    let v125 = s1[(v111 + 102i)];
    v50 = fma(vec4<f32>(v124.x), v125, v50);
    v51 = fma(vec4<f32>(v124.y), v125, v51);
    v52 = fma(vec4<f32>(v124.z), v125, v52);
    v53 = fma(vec4<f32>(v124.w), v125, v53);
    let v126 = s0[(v110 + 63i)];
    let v127 = s1[(v111 + 119i)];
    v50 = fma(vec4<f32>(v126.x), v127, v50);
    v51 = fma(vec4<f32>(v126.y), v127, v51);
    v52 = fma(vec4<f32>(v126.z), v127, v52);
    v53 = fma(vec4<f32>(v126.w), v127, v53);
    let v128 = s0[(v110 + 72i)];
    let v129 = s1[(v111 + 136i)];
    v50 = fma(vec4<f32>(v128.x), v129, v50);
    v51 = fma(vec4<f32>(v128.y), v129, v51);
    v52 = fma(vec4<f32>(v128.z), v129, v52);
    v53 = fma(vec4<f32>(v128.w), v129, v53);
    let v130 = s0[(v110 + 81i)];
    let v131 = s1[(v111 + 153i)];
    v50 = fma(vec4<f32>(v130.x), v131, v50);
    v51 = fma(vec4<f32>(v130.y), v131, v51);
    v52 = fma(vec4<f32>(v130.z), v131, v52);
    v53 = fma(vec4<f32>(v130.w), v131, v53);
    let v132 = s0[(v110 + 90i)];
    let v133 = s1[(v111 + 170i)];
    v50 = fma(vec4<f32>(v132.x), v133, v50);
    v51 = fma(vec4<f32>(v132.y), v133, v51);
    v52 = fma(vec4<f32>(v132.z), v133, v52);
    v53 = fma(vec4<f32>(v132.w), v133, v53);
    let v134 = s0[(v110 + 99i)];
    let v135 = s1[(v111 + 187i)];
    v50 = fma(vec4<f32>(v134.x), v135, v50);
    v51 = fma(vec4<f32>(v134.y), v135, v51);
    v52 = fma(vec4<f32>(v134.z), v135, v52);
    v53 = fma(vec4<f32>(v134.w), v135, v53);
    let v136 = s0[(v110 + 108i)];
    let v137 = s1[(v111 + 204i)];
    v50 = fma(vec4<f32>(v136.x), v137, v50);
    v51 = fma(vec4<f32>(v136.y), v137, v51);
    v52 = fma(vec4<f32>(v136.z), v137, v52);
    v53 = fma(vec4<f32>(v136.w), v137, v53);
    let v138 = s0[(v110 + 117i)];
    let v139 = s1[(v111 + 221i)];
    v50 = fma(vec4<f32>(v138.x), v139, v50);
    v51 = fma(vec4<f32>(v138.y), v139, v51);
    v52 = fma(vec4<f32>(v138.z), v139, v52);
    v53 = fma(vec4<f32>(v138.w), v139, v53);
    let v140 = s0[(v110 + 126i)];
    let v141 = s1[(v111 + 238i)];
    v50 = fma(vec4<f32>(v140.x), v141, v50);
    v51 = fma(vec4<f32>(v140.y), v141, v51);
    v52 = fma(vec4<f32>(v140.z), v141, v52);
    v53 = fma(vec4<f32>(v140.w), v141, v53);
    let v142 = s0[(v110 + 135i)];
    let v143 = s1[(v111 + 255i)];
    v50 = fma(vec4<f32>(v142.x), v143, v50);
    v51 = fma(vec4<f32>(v142.y), v143, v51);
    v52 = fma(vec4<f32>(v142.z), v143, v52);
    v53 = fma(vec4<f32>(v142.w), v143, v53);
    let v144 = (1i - v87);
    let v145 = min((v89 + 16i), v54);
    let v146 = (v144 * 576i);
    let v147 = (v146 + v22);
    s0[v147 >> 2u][v147 & 3i] = v23.x;
    let v148 = ((v146 + v22) + 36i);
    s0[v148 >> 2u][v148 & 3i] = v23.y;
    let v149 = ((v146 + v22) + 72i);
    s0[v149 >> 2u][v149 & 3i] = v23.z;
    let v150 = ((v146 + v22) + 108i);
    s0[v150 >> 2u][v150 & 3i] = v23.w;
    let v151 = (v144 * 1088i);
    let v152 = (v151 + v27);
    s1[v152 >> 2u][v152 & 3i] = v28;
    let v153 = (v151 + v30);
    s1[v153 >> 2u][v153 & 3i] = v31;
    let v154 = (v151 + v33);
    s1[v154 >> 2u][v154 & 3i] = v34;
    let v155 = (v151 + v36);
    s1[v155 >> 2u][v155 & 3i] = v37;
    let v156 = (v151 + v39);
    s1[v156 >> 2u][v156 & 3i] = v40;
    let v157 = (v151 + v42);
    s1[v157 >> 2u][v157 & 3i] = v43;
    let v158 = (v151 + v45);
    s1[v158 >> 2u][v158 & 3i] = v46;
    let v159 = (v151 + v48);
    s1[v159 >> 2u][v159 & 3i] = v49;
    workgroupBarrier();
    v87 = v144;
  }
  let v160 = (((i32(u32(v15) / u32(16i)) * 4i) + i32(u32(i32(u32(v15) % u32(16i))) / u32(4i))) * 68i);
  let v161 = (v9 + v16);
  let v162 = (P.p10 + (min(v161, (P.p1 - 1i)) * P.p9));
  let v163 = b2[v162];
  let v164 = (P.p10 + (min((v161 + 1i), (P.p1 - 1i)) * P.p9));
  let v165 = b2[v164];
  let v166 = (P.p10 + (min((v161 + 2i), (P.p1 - 1i)) * P.p9));
  let v167 = b2[v166];
  let v168 = (P.p10 + (min((v161 + 3i), (P.p1 - 1i)) * P.p9));
  let v169 = b2[v168];
  let v170 = vec4<f32>(v163, v165, v167, v169);
  let v171 = i32(u32((v160 + v16)) / u32(4i));
  let v172 = (v50 + v170);
  let v173 = ((vec4<f32>(0.5f) * v172) * (vec4<f32>(1f) + erf_f32x4((v172 * vec4<f32>(0.70710677f)))));
  s1[v171] = v173;
  workgroupBarrier();
  let v174 = i32(u32(lid) / u32(64i));
  let v175 = i32(u32(lid) % u32(64i));
  let v176 = (v8 + ((i32(u32(v174) / u32(4i)) * 16i) + (i32(u32(v174) % u32(4i)) * 4i)));
  let v177 = (v9 + v175);
  if (((v176 < P.p0) & (v177 < P.p1))) {
    let v178 = ((v174 * 68i) + v175);
    let v179 = s1[v178 >> 2u][v178 & 3i];
    let v180 = ((v176 * P.p1) + v177);
    let v181 = (v179 + b3[v180]);
    b4[v180] = v181;
  }
  let v182 = (lid + 128i);
  let v183 = i32(u32(v182) / u32(64i));
  let v184 = i32(u32(v182) % u32(64i));
  let v185 = (v8 + ((i32(u32(v183) / u32(4i)) * 16i) + (i32(u32(v183) % u32(4i)) * 4i)));
  let v186 = (v9 + v184);
  if (((v185 < P.p0) & (v186 < P.p1))) {
    let v187 = ((v183 * 68i) + v184);
    let v188 = s1[v187 >> 2u][v187 & 3i];
    let v189 = ((v185 * P.p1) + v186);
    let v190 = (v188 + b3[v189]);
    b4[v189] = v190;
  }
  let v191 = (lid + 256i);
  let v192 = i32(u32(v191) / u32(64i));
  let v193 = i32(u32(v191) % u32(64i));
  let v194 = (v8 + ((i32(u32(v192) / u32(4i)) * 16i) + (i32(u32(v192) % u32(4i)) * 4i)));
  let v195 = (v9 + v193);
  if (((v194 < P.p0) & (v195 < P.p1))) {
    let v196 = ((v192 * 68i) + v193);
    let v197 = s1[v196 >> 2u][v196 & 3i];
    let v198 = ((v194 * P.p1) + v195);
    let v199 = (v197 + b3[v198]);
    b4[v198] = v199;
  }
  let v200 = (lid + 384i);
  let v201 = i32(u32(v200) / u32(64i));
  let v202 = i32(u32(v200) % u32(64i));
  let v203 = (v8 + ((i32(u32(v201) / u32(4i)) * 16i) + (i32(u32(v201) % u32(4i)) * 4i)));
  let v204 = (v9 + v202);
  if (((v203 < P.p0) & (v204 < P.p1))) {
    let v205 = ((v201 * 68i) + v202);
    let v206 = s1[v205 >> 2u][v205 & 3i];
    let v207 = ((v203 * P.p1) + v204);
    let v208 = (v206 + b3[v207]);
    b4[v207] = v208;
  }
  workgroupBarrier();
  let v209 = i32(u32((v160 + v16)) / u32(4i));
  let v210 = (v51 + v170);
  let v211 = ((vec4<f32>(0.5f) * v210) * (vec4<f32>(1f) + erf_f32x4((v210 * vec4<f32>(0.70710677f)))));
  s1[v209] = v211;
  workgroupBarrier();
  let v212 = i32(u32(lid) / u32(64i));
  let v213 = i32(u32(lid) % u32(64i));
  let v214 = ((v8 + ((i32(u32(v212) / u32(4i)) * 16i) + (i32(u32(v212) % u32(4i)) * 4i))) + 1i);
  let v215 = (v9 + v213);
  if (((v214 < P.p0) & (v215 < P.p1))) {
    let v216 = ((v212 * 68i) + v213);
    let v217 = s1[v216 >> 2u][v216 & 3i];
    let v218 = ((v214 * P.p1) + v215);
    let v219 = (v217 + b3[v218]);
    b4[v218] = v219;
  }
  let v220 = (lid + 128i);
  let v221 = i32(u32(v220) / u32(64i));
  let v222 = i32(u32(v220) % u32(64i));
  let v223 = ((v8 + ((i32(u32(v221) / u32(4i)) * 16i) + (i32(u32(v221) % u32(4i)) * 4i))) + 1i);
  let v224 = (v9 + v222);
  if (((v223 < P.p0) & (v224 < P.p1))) {
    let v225 = ((v221 * 68i) + v222);
    let v226 = s1[v225 >> 2u][v225 & 3i];
    let v227 = ((v223 * P.p1) + v224);
    let v228 = (v226 + b3[v227]);
    b4[v227] = v228;
  }
  let v229 = (lid + 256i);
  let v230 = i32(u32(v229) / u32(64i));
  let v231 = i32(u32(v229) % u32(64i));
  let v232 = ((v8 + ((i32(u32(v230) / u32(4i)) * 16i) + (i32(u32(v230) % u32(4i)) * 4i))) + 1i);
  let v233 = (v9 + v231);
  if (((v232 < P.p0) & (v233 < P.p1))) {
    let v234 = ((v230 * 68i) + v231);
    let v235 = s1[v234 >> 2u][v234 & 3i];
    let v236 = ((v232 * P.p1) + v233);
    let v237 = (v235 + b3[v236]);
    b4[v236] = v237;
  }
  let v238 = (lid + 384i);
  let v239 = i32(u32(v238) / u32(64i));
  let v240 = i32(u32(v238) % u32(64i));
  let v241 = ((v8 + ((i32(u32(v239) / u32(4i)) * 16i) + (i32(u32(v239) % u32(4i)) * 4i))) + 1i);
  let v242 = (v9 + v240);
  if (((v241 < P.p0) & (v242 < P.p1))) {
    let v243 = ((v239 * 68i) + v240);
    let v244 = s1[v243 >> 2u][v243 & 3i];
    let v245 = ((v241 * P.p1) + v242);
    let v246 = (v244 + b3[v245]);
    b4[v245] = v246;
  }
  workgroupBarrier();
  let v247 = i32(u32((v160 + v16)) / u32(4i));
  let v248 = (v52 + v170);
  let v249 = ((vec4<f32>(0.5f) * v248) * (vec4<f32>(1f) + erf_f32x4((v248 * vec4<f32>(0.70710677f)))));
  s1[v247] = v249;
  workgroupBarrier();
  let v250 = i32(u32(lid) / u32(64i));
  let v251 = i32(u32(lid) % u32(64i));
  let v252 = ((v8 + ((i32(u32(v250) / u32(4i)) * 16i) + (i32(u32(v250) % u32(4i)) * 4i))) + 2i);
  let v253 = (v9 + v251);
  if (((v252 < P.p0) & (v253 < P.p1))) {
    let v254 = ((v250 * 68i) + v251);
    let v255 = s1[v254 >> 2u][v254 & 3i];
    let v256 = ((v252 * P.p1) + v253);
    let v257 = (v255 + b3[v256]);
    b4[v256] = v257;
  }
  let v258 = (lid + 128i);
  let v259 = i32(u32(v258) / u32(64i));
  let v260 = i32(u32(v258) % u32(64i));
  let v261 = ((v8 + ((i32(u32(v259) / u32(4i)) * 16i) + (i32(u32(v259) % u32(4i)) * 4i))) + 2i);
  let v262 = (v9 + v260);
  if (((v261 < P.p0) & (v262 < P.p1))) {
    let v263 = ((v259 * 68i) + v260);
    let v264 = s1[v263 >> 2u][v263 & 3i];
    let v265 = ((v261 * P.p1) + v262);
    let v266 = (v264 + b3[v265]);
    b4[v265] = v266;
  }
  let v267 = (lid + 256i);
  let v268 = i32(u32(v267) / u32(64i));
  let v269 = i32(u32(v267) % u32(64i));
  let v270 = ((v8 + ((i32(u32(v268) / u32(4i)) * 16i) + (i32(u32(v268) % u32(4i)) * 4i))) + 2i);
  let v271 = (v9 + v269);
  if (((v270 < P.p0) & (v271 < P.p1))) {
    let v272 = ((v268 * 68i) + v269);
    let v273 = s1[v272 >> 2u][v272 & 3i];
    let v274 = ((v270 * P.p1) + v271);
    let v275 = (v273 + b3[v274]);
    b4[v274] = v275;
  }
  let v276 = (lid + 384i);
  let v277 = i32(u32(v276) / u32(64i));
  let v278 = i32(u32(v276) % u32(64i));
  let v279 = ((v8 + ((i32(u32(v277) / u32(4i)) * 16i) + (i32(u32(v277) % u32(4i)) * 4i))) + 2i);
  let v280 = (v9 + v278);
  if (((v279 < P.p0) & (v280 < P.p1))) {
    let v281 = ((v277 * 68i) + v278);
    let v282 = s1[v281 >> 2u][v281 & 3i];
    let v283 = ((v279 * P.p1) + v280);
    let v284 = (v282 + b3[v283]);
    b4[v283] = v284;
  }
  workgroupBarrier();
  let v285 = i32(u32((v160 + v16)) / u32(4i));
  let v286 = (v53 + v170);
  let v287 = ((vec4<f32>(0.5f) * v286) * (vec4<f32>(1f) + erf_f32x4((v286 * vec4<f32>(0.70710677f)))));
  s1[v285] = v287;
  workgroupBarrier();
  let v288 = i32(u32(lid) / u32(64i));
  let v289 = i32(u32(lid) % u32(64i));
  let v290 = ((v8 + ((i32(u32(v288) / u32(4i)) * 16i) + (i32(u32(v288) % u32(4i)) * 4i))) + 3i);
  let v291 = (v9 + v289);
  if (((v290 < P.p0) & (v291 < P.p1))) {
    let v292 = ((v288 * 68i) + v289);
    let v293 = s1[v292 >> 2u][v292 & 3i];
    let v294 = ((v290 * P.p1) + v291);
    let v295 = (v293 + b3[v294]);
    b4[v294] = v295;
  }
  let v296 = (lid + 128i);
  let v297 = i32(u32(v296) / u32(64i));
  let v298 = i32(u32(v296) % u32(64i));
  let v299 = ((v8 + ((i32(u32(v297) / u32(4i)) * 16i) + (i32(u32(v297) % u32(4i)) * 4i))) + 3i);
  let v300 = (v9 + v298);
  if (((v299 < P.p0) & (v300 < P.p1))) {
    let v301 = ((v297 * 68i) + v298);
    let v302 = s1[v301 >> 2u][v301 & 3i];
    let v303 = ((v299 * P.p1) + v300);
    let v304 = (v302 + b3[v303]);
    b4[v303] = v304;
  }
  let v305 = (lid + 256i);
  let v306 = i32(u32(v305) / u32(64i));
  let v307 = i32(u32(v305) % u32(64i));
  let v308 = ((v8 + ((i32(u32(v306) / u32(4i)) * 16i) + (i32(u32(v306) % u32(4i)) * 4i))) + 3i);
  let v309 = (v9 + v307);
  if (((v308 < P.p0) & (v309 < P.p1))) {
    let v310 = ((v306 * 68i) + v307);
    let v311 = s1[v310 >> 2u][v310 & 3i];
    let v312 = ((v308 * P.p1) + v309);
    let v313 = (v311 + b3[v312]);
    b4[v312] = v313;
  }
  let v314 = (lid + 384i);
  let v315 = i32(u32(v314) / u32(64i));
  let v316 = i32(u32(v314) % u32(64i));
  let v317 = ((v8 + ((i32(u32(v315) / u32(4i)) * 16i) + (i32(u32(v315) % u32(4i)) * 4i))) + 3i);
  let v318 = (v9 + v316);
  if (((v317 < P.p0) & (v318 < P.p1))) {
    let v319 = ((v315 * 68i) + v316);
    let v320 = s1[v319 >> 2u][v319 & 3i];
    let v321 = ((v317 * P.p1) + v318);
    let v322 = (v320 + b3[v321]);
    b4[v321] = v322;
  }
}
