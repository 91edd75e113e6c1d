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
  let v26 = (lid + 128i);
  let v27 = i32(u32(v26) / u32(64i));
  let v28 = i32(u32(v26) % u32(64i));
  let v29 = (lid + 256i);
  let v30 = i32(u32(v29) / u32(64i));
  let v31 = i32(u32(v29) % u32(64i));
  let v32 = (lid + 384i);
  let v33 = i32(u32(v32) / u32(64i));
  let v34 = i32(u32(v32) % u32(64i));
  let v35 = (lid + 512i);
  let v36 = i32(u32(v35) / u32(64i));
  let v37 = i32(u32(v35) % u32(64i));
  let v38 = (lid + 640i);
  let v39 = i32(u32(v38) / u32(64i));
  let v40 = i32(u32(v38) % u32(64i));
  let v41 = (lid + 768i);
  let v42 = i32(u32(v41) / u32(64i));
  let v43 = i32(u32(v41) % u32(64i));
  let v44 = (lid + 896i);
  let v45 = i32(u32(v44) / u32(64i));
  let v46 = i32(u32(v44) % u32(64i));
  let v47 = (P.p8 + (min((v9 + v25), (P.p1 - 1i)) * P.p7));
  let v48 = ((v24 * 68i) + v25);
  var v49: f32 = 0f;
  let v50 = (P.p8 + (min((v9 + v28), (P.p1 - 1i)) * P.p7));
  let v51 = ((v27 * 68i) + v28);
  var v52: f32 = 0f;
  let v53 = (P.p8 + (min((v9 + v31), (P.p1 - 1i)) * P.p7));
  let v54 = ((v30 * 68i) + v31);
  var v55: f32 = 0f;
  let v56 = (P.p8 + (min((v9 + v34), (P.p1 - 1i)) * P.p7));
  let v57 = ((v33 * 68i) + v34);
  var v58: f32 = 0f;
  let v59 = (P.p8 + (min((v9 + v37), (P.p1 - 1i)) * P.p7));
  let v60 = ((v36 * 68i) + v37);
  var v61: f32 = 0f;
  let v62 = (P.p8 + (min((v9 + v40), (P.p1 - 1i)) * P.p7));
  let v63 = ((v39 * 68i) + v40);
  var v64: f32 = 0f;
  let v65 = (P.p8 + (min((v9 + v43), (P.p1 - 1i)) * P.p7));
  let v66 = ((v42 * 68i) + v43);
  var v67: f32 = 0f;
  let v68 = (P.p8 + (min((v9 + v46), (P.p1 - 1i)) * P.p7));
  let v69 = ((v45 * 68i) + v46);
  var v70: f32 = 0f;
  var v71: vec4<f32> = vec4<f32>(0f);
  var v72: vec4<f32> = vec4<f32>(0f);
  var v73: vec4<f32> = vec4<f32>(0f);
  var v74: vec4<f32> = vec4<f32>(0f);
  let v75 = (P.p2 - 16i);
  let v76 = (i32(u32(((P.p2 - 0i) - 1i)) % u32(16i)) + 1i);
  let v77 = select(P.p2, (v76 - 16i), (0i < P.p2));
  if ((0i < P.p2)) {
    let v78 = min(v21, (v76 - 4i));
    let v79 = (v20 + i32(u32(v78) / u32(4i)));
    let v80 = b0[v79];
    v23 = select(vec4<f32>(0f), v80, vec4<bool>((v21 < v76)));
    let v81 = min(v24, (v76 - 1i));
    let v82 = (v47 + (v81 * P.p6));
    let v83 = b1[v82];
    v49 = select(0f, v83, (v24 < v76));
    let v84 = min(v27, (v76 - 1i));
    let v85 = (v50 + (v84 * P.p6));
    let v86 = b1[v85];
    v52 = select(0f, v86, (v27 < v76));
    let v87 = min(v30, (v76 - 1i));
    let v88 = (v53 + (v87 * P.p6));
    let v89 = b1[v88];
    v55 = select(0f, v89, (v30 < v76));
    let v90 = min(v33, (v76 - 1i));
    let v91 = (v56 + (v90 * P.p6));
    let v92 = b1[v91];
    v58 = select(0f, v92, (v33 < v76));
    let v93 = min(v36, (v76 - 1i));
    let v94 = (v59 + (v93 * P.p6));
    let v95 = b1[v94];
    v61 = select(0f, v95, (v36 < v76));
    let v96 = min(v39, (v76 - 1i));
    let v97 = (v62 + (v96 * P.p6));
    let v98 = b1[v97];
    v64 = select(0f, v98, (v39 < v76));
    let v99 = min(v42, (v76 - 1i));
    let v100 = (v65 + (v99 * P.p6));
    let v101 = b1[v100];
    v67 = select(0f, v101, (v42 < v76));
    let v102 = min(v45, (v76 - 1i));
    let v103 = (v68 + (v102 * P.p6));
    let v104 = b1[v103];
    v70 = select(0f, v104, (v45 < v76));
    s0[v22 >> 2u][v22 & 3i] = v23.x;
    let v105 = (v22 + 36i);
    s0[v105 >> 2u][v105 & 3i] = v23.y;
    let v106 = (v22 + 72i);
    s0[v106 >> 2u][v106 & 3i] = v23.z;
    let v107 = (v22 + 108i);
    s0[v107 >> 2u][v107 & 3i] = v23.w;
    s1[v48 >> 2u][v48 & 3i] = v49;
    s1[v51 >> 2u][v51 & 3i] = v52;
    s1[v54 >> 2u][v54 & 3i] = v55;
    s1[v57 >> 2u][v57 & 3i] = v58;
    s1[v60 >> 2u][v60 & 3i] = v61;
    s1[v63 >> 2u][v63 & 3i] = v64;
    s1[v66 >> 2u][v66 & 3i] = v67;
    s1[v69 >> 2u][v69 & 3i] = v70;
  }
  workgroupBarrier();
  var v108: i32 = 0i;
  for (var v109: i32 = v77; v109 < P.p2; v109 += 16i) {
    let v110 = min((v109 + 16i), v75);
    let v111 = (v20 + i32(u32((v110 + v21)) / u32(4i)));
    let v112 = b0[v111];
    v23 = v112;
    let v113 = (v47 + ((v110 + v24) * P.p6));
    let v114 = b1[v113];
    v49 = v114;
    let v115 = (v50 + ((v110 + v27) * P.p6));
    let v116 = b1[v115];
    v52 = v116;
    let v117 = (v53 + ((v110 + v30) * P.p6));
    let v118 = b1[v117];
    v55 = v118;
    let v119 = (v56 + ((v110 + v33) * P.p6));
    let v120 = b1[v119];
    v58 = v120;
    let v121 = (v59 + ((v110 + v36) * P.p6));
    let v122 = b1[v121];
    v61 = v122;
    let v123 = (v62 + ((v110 + v39) * P.p6));
    let v124 = b1[v123];
    v64 = v124;
    let v125 = (v65 + ((v110 + v42) * P.p6));
    let v126 = b1[v125];
    v67 = v126;
    let v127 = (v68 + ((v110 + v45) * P.p6));
    let v128 = b1[v127];
    v70 = v128;
    let v129 = (v108 * 144i);
    let v130 = (v108 * 272i);
    let v131 = (v129 + i32(u32(v15) / u32(4i)));
    let v132 = (v130 + i32(u32(v16) / u32(4i)));
    let v133 = s0[v131];
    let v134 = s1[v132];
    v71 = fma(vec4<f32>(v133.x), v134, v71);
    v72 = fma(vec4<f32>(v133.y), v134, v72);
    v73 = fma(vec4<f32>(v133.z), v134, v73);
    v74 = fma(vec4<f32>(v133.w), v134, v74);
    let v135 = s0[(v131 + 9i)];
    let v136 = s1[(v132 + 17i)];
    v71 = fma(vec4<f32>(v135.x), v136, v71);
    v72 = fma(vec4<f32>(v135.y), v136, v72);
    v73 = fma(vec4<f32>(v135.z), v136, v73);
    v74 = fma(vec4<f32>(v135.w), v136, v74);
    let v137 = s0[(v131 + 18i)];
    let v138 = s1[(v132 + 34i)];
    v71 = fma(vec4<f32>(v137.x), v138, v71);
    v72 = fma(vec4<f32>(v137.y), v138, v72);
    v73 = fma(vec4<f32>(v137.z), v138, v73);
    v74 = fma(vec4<f32>(v137.w), v138, v74);
    let v139 = s0[(v131 + 27i)];
    let v140 = s1[(v132 + 51i)];
    v71 = fma(vec4<f32>(v139.x), v140, v71);
    v72 = fma(vec4<f32>(v139.y), v140, v72);
    v73 = fma(vec4<f32>(v139.z), v140, v73);
    v74 = fma(vec4<f32>(v139.w), v140, v74);
    let v141 = s0[(v131 + 36i)];
    let v142 = s1[(v132 + 68i)];
    v71 = fma(vec4<f32>(v141.x), v142, v71);
    v72 = fma(vec4<f32>(v141.y), v142, v72);
    v73 = fma(vec4<f32>(v141.z), v142, v73);
    v74 = fma(vec4<f32>(v141.w), v142, v74);
    let v143 = s0[(v131 + 45i)];
    let v144 = s1[(v132 + 85i)];
    v71 = fma(vec4<f32>(v143.x), v144, v71);
    v72 = fma(vec4<f32>(v143.y), v144, v72);
    v73 = fma(vec4<f32>(v143.z), v144, v73);
    v74 = fma(vec4<f32>(v143.w), v144, v74);
    let v145 = s0[(v131 + 54i)];
    let v146 = s1[(v132 + 102i)];
    v71 = fma(vec4<f32>(v145.x), v146, v71);
    v72 = fma(vec4<f32>(v145.y), v146, v72);
    v73 = fma(vec4<f32>(v145.z), v146, v73);
    v74 = fma(vec4<f32>(v145.w), v146, v74);
    let v147 = s0[(v131 + 63i)];
    let v148 = s1[(v132 + 119i)];
    v71 = fma(vec4<f32>(v147.x), v148, v71);
    v72 = fma(vec4<f32>(v147.y), v148, v72);
    v73 = fma(vec4<f32>(v147.z), v148, v73);
    v74 = fma(vec4<f32>(v147.w), v148, v74);
    let v149 = s0[(v131 + 72i)];
    let v150 = s1[(v132 + 136i)];
    v71 = fma(vec4<f32>(v149.x), v150, v71);
    v72 = fma(vec4<f32>(v149.y), v150, v72);
    v73 = fma(vec4<f32>(v149.z), v150, v73);
    v74 = fma(vec4<f32>(v149.w), v150, v74);
    let v151 = s0[(v131 + 81i)];
    let v152 = s1[(v132 + 153i)];
    v71 = fma(vec4<f32>(v151.x), v152, v71);
    v72 = fma(vec4<f32>(v151.y), v152, v72);
    v73 = fma(vec4<f32>(v151.z), v152, v73);
    v74 = fma(vec4<f32>(v151.w), v152, v74);
    let v153 = s0[(v131 + 90i)];
    let v154 = s1[(v132 + 170i)];
    v71 = fma(vec4<f32>(v153.x), v154, v71);
    v72 = fma(vec4<f32>(v153.y), v154, v72);
    v73 = fma(vec4<f32>(v153.z), v154, v73);
    v74 = fma(vec4<f32>(v153.w), v154, v74);
    let v155 = s0[(v131 + 99i)];
    let v156 = s1[(v132 + 187i)];
    v71 = fma(vec4<f32>(v155.x), v156, v71);
    v72 = fma(vec4<f32>(v155.y), v156, v72);
    v73 = fma(vec4<f32>(v155.z), v156, v73);
    v74 = fma(vec4<f32>(v155.w), v156, v74);
    let v157 = s0[(v131 + 108i)];
    let v158 = s1[(v132 + 204i)];
    v71 = fma(vec4<f32>(v157.x), v158, v71);
    v72 = fma(vec4<f32>(v157.y), v158, v72);
    v73 = fma(vec4<f32>(v157.z), v158, v73);
    v74 = fma(vec4<f32>(v157.w), v158, v74);
    let v159 = s0[(v131 + 117i)];
    let v160 = s1[(v132 + 221i)];
    v71 = fma(vec4<f32>(v159.x), v160, v71);
    v72 = fma(vec4<f32>(v159.y), v160, v72);
    v73 = fma(vec4<f32>(v159.z), v160, v73);
    v74 = fma(vec4<f32>(v159.w), v160, v74);
    let v161 = s0[(v131 + 126i)];
    let v162 = s1[(v132 + 238i)];
    v71 = fma(vec4<f32>(v161.x), v162, v71);
    v72 = fma(vec4<f32>(v161.y), v162, v72);
    v73 = fma(vec4<f32>(v161.z), v162, v73);
    v74 = fma(vec4<f32>(v161.w), v162, v74);
    let v163 = s0[(v131 + 135i)];
    let v164 = s1[(v132 + 255i)];
    v71 = fma(vec4<f32>(v163.x), v164, v71);
    v72 = fma(vec4<f32>(v163.y), v164, v72);
    v73 = fma(vec4<f32>(v163.z), v164, v73);
    v74 = fma(vec4<f32>(v163.w), v164, v74);
    let v165 = (1i - v108);
    let v166 = min((v110 + 16i), v75);
    let v167 = (v165 * 576i);
    let v168 = (v167 + v22);
    s0[v168 >> 2u][v168 & 3i] = v23.x;
    let v169 = ((v167 + v22) + 36i);
    s0[v169 >> 2u][v169 & 3i] = v23.y;
    let v170 = ((v167 + v22) + 72i);
    s0[v170 >> 2u][v170 & 3i] = v23.z;
    let v171 = ((v167 + v22) + 108i);
    s0[v171 >> 2u][v171 & 3i] = v23.w;
    let v172 = (v165 * 1088i);
    let v173 = (v172 + v48);
    s1[v173 >> 2u][v173 & 3i] = v49;
    let v174 = (v172 + v51);
    s1[v174 >> 2u][v174 & 3i] = v52;
    let v175 = (v172 + v54);
    s1[v175 >> 2u][v175 & 3i] = v55;
    let v176 = (v172 + v57);
    s1[v176 >> 2u][v176 & 3i] = v58;
    let v177 = (v172 + v60);
    s1[v177 >> 2u][v177 & 3i] = v61;
    let v178 = (v172 + v63);
    s1[v178 >> 2u][v178 & 3i] = v64;
    let v179 = (v172 + v66);
    s1[v179 >> 2u][v179 & 3i] = v67;
    let v180 = (v172 + v69);
    s1[v180 >> 2u][v180 & 3i] = v70;
    workgroupBarrier();
    v108 = v165;
  }
  let v181 = (((i32(u32(v15) / u32(16i)) * 4i) + i32(u32(i32(u32(v15) % u32(16i))) / u32(4i))) * 68i);
  let v182 = (v9 + v16);
  let v183 = (P.p10 + (min(v182, (P.p1 - 1i)) * P.p9));
  let v184 = b2[v183];
  let v185 = (P.p10 + (min((v182 + 1i), (P.p1 - 1i)) * P.p9));
  let v186 = b2[v185];
  let v187 = (P.p10 + (min((v182 + 2i), (P.p1 - 1i)) * P.p9));
  let v188 = b2[v187];
  let v189 = (P.p10 + (min((v182 + 3i), (P.p1 - 1i)) * P.p9));
  let v190 = b2[v189];
  let v191 = vec4<f32>(v184, v186, v188, v190);
  let v192 = i32(u32((v181 + v16)) / u32(4i));
  let v193 = (v71 + v191);
  let v194 = ((vec4<f32>(0.5f) * v193) * (vec4<f32>(1f) + erf_f32x4((v193 * vec4<f32>(0.70710677f)))));
  s1[v192] = v194;
  workgroupBarrier();
  let v195 = i32(u32(lid) / u32(64i));
  let v196 = i32(u32(lid) % u32(64i));
  let v197 = (v8 + ((i32(u32(v195) / u32(4i)) * 16i) + (i32(u32(v195) % u32(4i)) * 4i)));
  let v198 = (v9 + v196);
  if (((v197 < P.p0) & (v198 < P.p1))) {
    let v199 = ((v195 * 68i) + v196);
    let v200 = s1[v199 >> 2u][v199 & 3i];
    let v201 = ((v197 * P.p1) + v198);
    let v202 = (v200 + b3[v201]);
    b4[v201] = v202;
  }
  let v203 = (lid + 128i);
  let v204 = i32(u32(v203) / u32(64i));
  let v205 = i32(u32(v203) % u32(64i));
  let v206 = (v8 + ((i32(u32(v204) / u32(4i)) * 16i) + (i32(u32(v204) % u32(4i)) * 4i)));
  let v207 = (v9 + v205);
  if (((v206 < P.p0) & (v207 < P.p1))) {
    let v208 = ((v204 * 68i) + v205);
    let v209 = s1[v208 >> 2u][v208 & 3i];
    let v210 = ((v206 * P.p1) + v207);
    let v211 = (v209 + b3[v210]);
    b4[v210] = v211;
  }
  let v212 = (lid + 256i);
  let v213 = i32(u32(v212) / u32(64i));
  let v214 = i32(u32(v212) % u32(64i));
  let v215 = (v8 + ((i32(u32(v213) / u32(4i)) * 16i) + (i32(u32(v213) % u32(4i)) * 4i)));
  let v216 = (v9 + v214);
  if (((v215 < P.p0) & (v216 < P.p1))) {
    let v217 = ((v213 * 68i) + v214);
    let v218 = s1[v217 >> 2u][v217 & 3i];
    let v219 = ((v215 * P.p1) + v216);
    let v220 = (v218 + b3[v219]);
    b4[v219] = v220;
  }
  let v221 = (lid + 384i);
  let v222 = i32(u32(v221) / u32(64i));
  let v223 = i32(u32(v221) % u32(64i));
  let v224 = (v8 + ((i32(u32(v222) / u32(4i)) * 16i) + (i32(u32(v222) % u32(4i)) * 4i)));
  let v225 = (v9 + v223);
  if (((v224 < P.p0) & (v225 < P.p1))) {
    let v226 = ((v222 * 68i) + v223);
    let v227 = s1[v226 >> 2u][v226 & 3i];
    let v228 = ((v224 * P.p1) + v225);
    let v229 = (v227 + b3[v228]);
    b4[v228] = v229;
  }
  workgroupBarrier();
  let v230 = i32(u32((v181 + v16)) / u32(4i));
  let v231 = (v72 + v191);
  let v232 = ((vec4<f32>(0.5f) * v231) * (vec4<f32>(1f) + erf_f32x4((v231 * vec4<f32>(0.70710677f)))));
  s1[v230] = v232;
  workgroupBarrier();
  let v233 = i32(u32(lid) / u32(64i));
  let v234 = i32(u32(lid) % u32(64i));
  let v235 = ((v8 + ((i32(u32(v233) / u32(4i)) * 16i) + (i32(u32(v233) % u32(4i)) * 4i))) + 1i);
  let v236 = (v9 + v234);
  if (((v235 < P.p0) & (v236 < P.p1))) {
    let v237 = ((v233 * 68i) + v234);
    let v238 = s1[v237 >> 2u][v237 & 3i];
    let v239 = ((v235 * P.p1) + v236);
    let v240 = (v238 + b3[v239]);
    b4[v239] = v240;
  }
  let v241 = (lid + 128i);
  let v242 = i32(u32(v241) / u32(64i));
  let v243 = i32(u32(v241) % u32(64i));
  let v244 = ((v8 + ((i32(u32(v242) / u32(4i)) * 16i) + (i32(u32(v242) % u32(4i)) * 4i))) + 1i);
  let v245 = (v9 + v243);
  if (((v244 < P.p0) & (v245 < P.p1))) {
    let v246 = ((v242 * 68i) + v243);
    let v247 = s1[v246 >> 2u][v246 & 3i];
    let v248 = ((v244 * P.p1) + v245);
    let v249 = (v247 + b3[v248]);
    b4[v248] = v249;
  }
  let v250 = (lid + 256i);
  let v251 = i32(u32(v250) / u32(64i));
  let v252 = i32(u32(v250) % u32(64i));
  let v253 = ((v8 + ((i32(u32(v251) / u32(4i)) * 16i) + (i32(u32(v251) % u32(4i)) * 4i))) + 1i);
  let v254 = (v9 + v252);
  if (((v253 < P.p0) & (v254 < P.p1))) {
    let v255 = ((v251 * 68i) + v252);
    let v256 = s1[v255 >> 2u][v255 & 3i];
    let v257 = ((v253 * P.p1) + v254);
    let v258 = (v256 + b3[v257]);
    b4[v257] = v258;
  }
  let v259 = (lid + 384i);
  let v260 = i32(u32(v259) / u32(64i));
  let v261 = i32(u32(v259) % u32(64i));
  let v262 = ((v8 + ((i32(u32(v260) / u32(4i)) * 16i) + (i32(u32(v260) % u32(4i)) * 4i))) + 1i);
  let v263 = (v9 + v261);
  if (((v262 < P.p0) & (v263 < P.p1))) {
    let v264 = ((v260 * 68i) + v261);
    let v265 = s1[v264 >> 2u][v264 & 3i];
    let v266 = ((v262 * P.p1) + v263);
    let v267 = (v265 + b3[v266]);
    b4[v266] = v267;
  }
  workgroupBarrier();
  let v268 = i32(u32((v181 + v16)) / u32(4i));
  let v269 = (v73 + v191);
  let v270 = ((vec4<f32>(0.5f) * v269) * (vec4<f32>(1f) + erf_f32x4((v269 * vec4<f32>(0.70710677f)))));
  s1[v268] = v270;
  workgroupBarrier();
  let v271 = i32(u32(lid) / u32(64i));
  let v272 = i32(u32(lid) % u32(64i));
  let v273 = ((v8 + ((i32(u32(v271) / u32(4i)) * 16i) + (i32(u32(v271) % u32(4i)) * 4i))) + 2i);
  let v274 = (v9 + v272);
  if (((v273 < P.p0) & (v274 < P.p1))) {
    let v275 = ((v271 * 68i) + v272);
    let v276 = s1[v275 >> 2u][v275 & 3i];
    let v277 = ((v273 * P.p1) + v274);
    let v278 = (v276 + b3[v277]);
    b4[v277] = v278;
  }
  let v279 = (lid + 128i);
  let v280 = i32(u32(v279) / u32(64i));
  let v281 = i32(u32(v279) % u32(64i));
  let v282 = ((v8 + ((i32(u32(v280) / u32(4i)) * 16i) + (i32(u32(v280) % u32(4i)) * 4i))) + 2i);
  let v283 = (v9 + v281);
  if (((v282 < P.p0) & (v283 < P.p1))) {
    let v284 = ((v280 * 68i) + v281);
    let v285 = s1[v284 >> 2u][v284 & 3i];
    let v286 = ((v282 * P.p1) + v283);
    let v287 = (v285 + b3[v286]);
    b4[v286] = v287;
  }
  let v288 = (lid + 256i);
  let v289 = i32(u32(v288) / u32(64i));
  let v290 = i32(u32(v288) % u32(64i));
  let v291 = ((v8 + ((i32(u32(v289) / u32(4i)) * 16i) + (i32(u32(v289) % u32(4i)) * 4i))) + 2i);
  let v292 = (v9 + v290);
  if (((v291 < P.p0) & (v292 < P.p1))) {
    let v293 = ((v289 * 68i) + v290);
    let v294 = s1[v293 >> 2u][v293 & 3i];
    let v295 = ((v291 * P.p1) + v292);
    let v296 = (v294 + b3[v295]);
    b4[v295] = v296;
  }
  let v297 = (lid + 384i);
  let v298 = i32(u32(v297) / u32(64i));
  let v299 = i32(u32(v297) % u32(64i));
  let v300 = ((v8 + ((i32(u32(v298) / u32(4i)) * 16i) + (i32(u32(v298) % u32(4i)) * 4i))) + 2i);
  let v301 = (v9 + v299);
  if (((v300 < P.p0) & (v301 < P.p1))) {
    let v302 = ((v298 * 68i) + v299);
    let v303 = s1[v302 >> 2u][v302 & 3i];
    let v304 = ((v300 * P.p1) + v301);
    let v305 = (v303 + b3[v304]);
    b4[v304] = v305;
  }
  workgroupBarrier();
  let v306 = i32(u32((v181 + v16)) / u32(4i));
  let v307 = (v74 + v191);
  let v308 = ((vec4<f32>(0.5f) * v307) * (vec4<f32>(1f) + erf_f32x4((v307 * vec4<f32>(0.70710677f)))));
  s1[v306] = v308;
  workgroupBarrier();
  let v309 = i32(u32(lid) / u32(64i));
  let v310 = i32(u32(lid) % u32(64i));
  let v311 = ((v8 + ((i32(u32(v309) / u32(4i)) * 16i) + (i32(u32(v309) % u32(4i)) * 4i))) + 3i);
  let v312 = (v9 + v310);
  if (((v311 < P.p0) & (v312 < P.p1))) {
    let v313 = ((v309 * 68i) + v310);
    let v314 = s1[v313 >> 2u][v313 & 3i];
    let v315 = ((v311 * P.p1) + v312);
    let v316 = (v314 + b3[v315]);
    b4[v315] = v316;
  }
  let v317 = (lid + 128i);
  let v318 = i32(u32(v317) / u32(64i));
  let v319 = i32(u32(v317) % u32(64i));
  let v320 = ((v8 + ((i32(u32(v318) / u32(4i)) * 16i) + (i32(u32(v318) % u32(4i)) * 4i))) + 3i);
  let v321 = (v9 + v319);
  if (((v320 < P.p0) & (v321 < P.p1))) {
    let v322 = ((v318 * 68i) + v319);
    let v323 = s1[v322 >> 2u][v322 & 3i];
    let v324 = ((v320 * P.p1) + v321);
    let v325 = (v323 + b3[v324]);
    b4[v324] = v325;
  }
  let v326 = (lid + 256i);
  let v327 = i32(u32(v326) / u32(64i));
  let v328 = i32(u32(v326) % u32(64i));
  let v329 = ((v8 + ((i32(u32(v327) / u32(4i)) * 16i) + (i32(u32(v327) % u32(4i)) * 4i))) + 3i);
  let v330 = (v9 + v328);
  if (((v329 < P.p0) & (v330 < P.p1))) {
    let v331 = ((v327 * 68i) + v328);
    let v332 = s1[v331 >> 2u][v331 & 3i];
    let v333 = ((v329 * P.p1) + v330);
    let v334 = (v332 + b3[v333]);
    b4[v333] = v334;
  }
  let v335 = (lid + 384i);
  let v336 = i32(u32(v335) / u32(64i));
  let v337 = i32(u32(v335) % u32(64i));
  let v338 = ((v8 + ((i32(u32(v336) / u32(4i)) * 16i) + (i32(u32(v336) % u32(4i)) * 4i))) + 3i);
  let v339 = (v9 + v337);
  if (((v338 < P.p0) & (v339 < P.p1))) {
    let v340 = ((v336 * 68i) + v337);
    let v341 = s1[v340 >> 2u][v340 & 3i];
    let v342 = ((v338 * P.p1) + v339);
    let v343 = (v341 + b3[v342]);
    b4[v342] = v343;
  }
}
