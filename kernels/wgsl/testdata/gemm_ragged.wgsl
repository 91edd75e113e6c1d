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
    let v166 = (v165 * 576i);
    let v167 = (v166 + v22);
    s0[v167 >> 2u][v167 & 3i] = v23.x;
    let v168 = ((v166 + v22) + 36i);
    s0[v168 >> 2u][v168 & 3i] = v23.y;
    let v169 = ((v166 + v22) + 72i);
    s0[v169 >> 2u][v169 & 3i] = v23.z;
    let v170 = ((v166 + v22) + 108i);
    s0[v170 >> 2u][v170 & 3i] = v23.w;
    let v171 = (v165 * 1088i);
    let v172 = (v171 + v48);
    s1[v172 >> 2u][v172 & 3i] = v49;
    let v173 = (v171 + v51);
    s1[v173 >> 2u][v173 & 3i] = v52;
    let v174 = (v171 + v54);
    s1[v174 >> 2u][v174 & 3i] = v55;
    let v175 = (v171 + v57);
    s1[v175 >> 2u][v175 & 3i] = v58;
    let v176 = (v171 + v60);
    s1[v176 >> 2u][v176 & 3i] = v61;
    let v177 = (v171 + v63);
    s1[v177 >> 2u][v177 & 3i] = v64;
    let v178 = (v171 + v66);
    s1[v178 >> 2u][v178 & 3i] = v67;
    let v179 = (v171 + v69);
    s1[v179 >> 2u][v179 & 3i] = v70;
    workgroupBarrier();
    v108 = v165;
  }
  let v180 = (((i32(u32(v15) / u32(16i)) * 4i) + i32(u32(i32(u32(v15) % u32(16i))) / u32(4i))) * 68i);
  let v181 = (v9 + v16);
  let v182 = (P.p10 + (min(v181, (P.p1 - 1i)) * P.p9));
  let v183 = b2[v182];
  let v184 = (P.p10 + (min((v181 + 1i), (P.p1 - 1i)) * P.p9));
  let v185 = b2[v184];
  let v186 = (P.p10 + (min((v181 + 2i), (P.p1 - 1i)) * P.p9));
  let v187 = b2[v186];
  let v188 = (P.p10 + (min((v181 + 3i), (P.p1 - 1i)) * P.p9));
  let v189 = b2[v188];
  let v190 = vec4<f32>(v183, v185, v187, v189);
  let v191 = i32(u32((v180 + v16)) / u32(4i));
  let v192 = (v71 + v190);
  let v193 = ((vec4<f32>(0.5f) * v192) * (vec4<f32>(1f) + erf_f32x4((v192 * vec4<f32>(0.70710677f)))));
  s1[v191] = v193;
  workgroupBarrier();
  let v194 = i32(u32(lid) / u32(64i));
  let v195 = i32(u32(lid) % u32(64i));
  let v196 = (v8 + ((i32(u32(v194) / u32(4i)) * 16i) + (i32(u32(v194) % u32(4i)) * 4i)));
  let v197 = (v9 + v195);
  if (((v196 < P.p0) & (v197 < P.p1))) {
    let v198 = ((v194 * 68i) + v195);
    let v199 = s1[v198 >> 2u][v198 & 3i];
    let v200 = ((v196 * P.p1) + v197);
    let v201 = (v199 + b3[v200]);
    b4[v200] = v201;
  }
  let v202 = (lid + 128i);
  let v203 = i32(u32(v202) / u32(64i));
  let v204 = i32(u32(v202) % u32(64i));
  let v205 = (v8 + ((i32(u32(v203) / u32(4i)) * 16i) + (i32(u32(v203) % u32(4i)) * 4i)));
  let v206 = (v9 + v204);
  if (((v205 < P.p0) & (v206 < P.p1))) {
    let v207 = ((v203 * 68i) + v204);
    let v208 = s1[v207 >> 2u][v207 & 3i];
    let v209 = ((v205 * P.p1) + v206);
    let v210 = (v208 + b3[v209]);
    b4[v209] = v210;
  }
  let v211 = (lid + 256i);
  let v212 = i32(u32(v211) / u32(64i));
  let v213 = i32(u32(v211) % u32(64i));
  let v214 = (v8 + ((i32(u32(v212) / u32(4i)) * 16i) + (i32(u32(v212) % u32(4i)) * 4i)));
  let v215 = (v9 + v213);
  if (((v214 < P.p0) & (v215 < P.p1))) {
    let v216 = ((v212 * 68i) + v213);
    let v217 = s1[v216 >> 2u][v216 & 3i];
    let v218 = ((v214 * P.p1) + v215);
    let v219 = (v217 + b3[v218]);
    b4[v218] = v219;
  }
  let v220 = (lid + 384i);
  let v221 = i32(u32(v220) / u32(64i));
  let v222 = i32(u32(v220) % u32(64i));
  let v223 = (v8 + ((i32(u32(v221) / u32(4i)) * 16i) + (i32(u32(v221) % u32(4i)) * 4i)));
  let v224 = (v9 + v222);
  if (((v223 < P.p0) & (v224 < P.p1))) {
    let v225 = ((v221 * 68i) + v222);
    let v226 = s1[v225 >> 2u][v225 & 3i];
    let v227 = ((v223 * P.p1) + v224);
    let v228 = (v226 + b3[v227]);
    b4[v227] = v228;
  }
  workgroupBarrier();
  let v229 = i32(u32((v180 + v16)) / u32(4i));
  let v230 = (v72 + v190);
  let v231 = ((vec4<f32>(0.5f) * v230) * (vec4<f32>(1f) + erf_f32x4((v230 * vec4<f32>(0.70710677f)))));
  s1[v229] = v231;
  workgroupBarrier();
  let v232 = i32(u32(lid) / u32(64i));
  let v233 = i32(u32(lid) % u32(64i));
  let v234 = ((v8 + ((i32(u32(v232) / u32(4i)) * 16i) + (i32(u32(v232) % u32(4i)) * 4i))) + 1i);
  let v235 = (v9 + v233);
  if (((v234 < P.p0) & (v235 < P.p1))) {
    let v236 = ((v232 * 68i) + v233);
    let v237 = s1[v236 >> 2u][v236 & 3i];
    let v238 = ((v234 * P.p1) + v235);
    let v239 = (v237 + b3[v238]);
    b4[v238] = v239;
  }
  let v240 = (lid + 128i);
  let v241 = i32(u32(v240) / u32(64i));
  let v242 = i32(u32(v240) % u32(64i));
  let v243 = ((v8 + ((i32(u32(v241) / u32(4i)) * 16i) + (i32(u32(v241) % u32(4i)) * 4i))) + 1i);
  let v244 = (v9 + v242);
  if (((v243 < P.p0) & (v244 < P.p1))) {
    let v245 = ((v241 * 68i) + v242);
    let v246 = s1[v245 >> 2u][v245 & 3i];
    let v247 = ((v243 * P.p1) + v244);
    let v248 = (v246 + b3[v247]);
    b4[v247] = v248;
  }
  let v249 = (lid + 256i);
  let v250 = i32(u32(v249) / u32(64i));
  let v251 = i32(u32(v249) % u32(64i));
  let v252 = ((v8 + ((i32(u32(v250) / u32(4i)) * 16i) + (i32(u32(v250) % u32(4i)) * 4i))) + 1i);
  let v253 = (v9 + v251);
  if (((v252 < P.p0) & (v253 < P.p1))) {
    let v254 = ((v250 * 68i) + v251);
    let v255 = s1[v254 >> 2u][v254 & 3i];
    let v256 = ((v252 * P.p1) + v253);
    let v257 = (v255 + b3[v256]);
    b4[v256] = v257;
  }
  let v258 = (lid + 384i);
  let v259 = i32(u32(v258) / u32(64i));
  let v260 = i32(u32(v258) % u32(64i));
  let v261 = ((v8 + ((i32(u32(v259) / u32(4i)) * 16i) + (i32(u32(v259) % u32(4i)) * 4i))) + 1i);
  let v262 = (v9 + v260);
  if (((v261 < P.p0) & (v262 < P.p1))) {
    let v263 = ((v259 * 68i) + v260);
    let v264 = s1[v263 >> 2u][v263 & 3i];
    let v265 = ((v261 * P.p1) + v262);
    let v266 = (v264 + b3[v265]);
    b4[v265] = v266;
  }
  workgroupBarrier();
  let v267 = i32(u32((v180 + v16)) / u32(4i));
  let v268 = (v73 + v190);
  let v269 = ((vec4<f32>(0.5f) * v268) * (vec4<f32>(1f) + erf_f32x4((v268 * vec4<f32>(0.70710677f)))));
  s1[v267] = v269;
  workgroupBarrier();
  let v270 = i32(u32(lid) / u32(64i));
  let v271 = i32(u32(lid) % u32(64i));
  let v272 = ((v8 + ((i32(u32(v270) / u32(4i)) * 16i) + (i32(u32(v270) % u32(4i)) * 4i))) + 2i);
  let v273 = (v9 + v271);
  if (((v272 < P.p0) & (v273 < P.p1))) {
    let v274 = ((v270 * 68i) + v271);
    let v275 = s1[v274 >> 2u][v274 & 3i];
    let v276 = ((v272 * P.p1) + v273);
    let v277 = (v275 + b3[v276]);
    b4[v276] = v277;
  }
  let v278 = (lid + 128i);
  let v279 = i32(u32(v278) / u32(64i));
  let v280 = i32(u32(v278) % u32(64i));
  let v281 = ((v8 + ((i32(u32(v279) / u32(4i)) * 16i) + (i32(u32(v279) % u32(4i)) * 4i))) + 2i);
  let v282 = (v9 + v280);
  if (((v281 < P.p0) & (v282 < P.p1))) {
    let v283 = ((v279 * 68i) + v280);
    let v284 = s1[v283 >> 2u][v283 & 3i];
    let v285 = ((v281 * P.p1) + v282);
    let v286 = (v284 + b3[v285]);
    b4[v285] = v286;
  }
  let v287 = (lid + 256i);
  let v288 = i32(u32(v287) / u32(64i));
  let v289 = i32(u32(v287) % u32(64i));
  let v290 = ((v8 + ((i32(u32(v288) / u32(4i)) * 16i) + (i32(u32(v288) % u32(4i)) * 4i))) + 2i);
  let v291 = (v9 + v289);
  if (((v290 < P.p0) & (v291 < P.p1))) {
    let v292 = ((v288 * 68i) + v289);
    let v293 = s1[v292 >> 2u][v292 & 3i];
    let v294 = ((v290 * P.p1) + v291);
    let v295 = (v293 + b3[v294]);
    b4[v294] = v295;
  }
  let v296 = (lid + 384i);
  let v297 = i32(u32(v296) / u32(64i));
  let v298 = i32(u32(v296) % u32(64i));
  let v299 = ((v8 + ((i32(u32(v297) / u32(4i)) * 16i) + (i32(u32(v297) % u32(4i)) * 4i))) + 2i);
  let v300 = (v9 + v298);
  if (((v299 < P.p0) & (v300 < P.p1))) {
    let v301 = ((v297 * 68i) + v298);
    let v302 = s1[v301 >> 2u][v301 & 3i];
    let v303 = ((v299 * P.p1) + v300);
    let v304 = (v302 + b3[v303]);
    b4[v303] = v304;
  }
  workgroupBarrier();
  let v305 = i32(u32((v180 + v16)) / u32(4i));
  let v306 = (v74 + v190);
  let v307 = ((vec4<f32>(0.5f) * v306) * (vec4<f32>(1f) + erf_f32x4((v306 * vec4<f32>(0.70710677f)))));
  s1[v305] = v307;
  workgroupBarrier();
  let v308 = i32(u32(lid) / u32(64i));
  let v309 = i32(u32(lid) % u32(64i));
  let v310 = ((v8 + ((i32(u32(v308) / u32(4i)) * 16i) + (i32(u32(v308) % u32(4i)) * 4i))) + 3i);
  let v311 = (v9 + v309);
  if (((v310 < P.p0) & (v311 < P.p1))) {
    let v312 = ((v308 * 68i) + v309);
    let v313 = s1[v312 >> 2u][v312 & 3i];
    let v314 = ((v310 * P.p1) + v311);
    let v315 = (v313 + b3[v314]);
    b4[v314] = v315;
  }
  let v316 = (lid + 128i);
  let v317 = i32(u32(v316) / u32(64i));
  let v318 = i32(u32(v316) % u32(64i));
  let v319 = ((v8 + ((i32(u32(v317) / u32(4i)) * 16i) + (i32(u32(v317) % u32(4i)) * 4i))) + 3i);
  let v320 = (v9 + v318);
  if (((v319 < P.p0) & (v320 < P.p1))) {
    let v321 = ((v317 * 68i) + v318);
    let v322 = s1[v321 >> 2u][v321 & 3i];
    let v323 = ((v319 * P.p1) + v320);
    let v324 = (v322 + b3[v323]);
    b4[v323] = v324;
  }
  let v325 = (lid + 256i);
  let v326 = i32(u32(v325) / u32(64i));
  let v327 = i32(u32(v325) % u32(64i));
  let v328 = ((v8 + ((i32(u32(v326) / u32(4i)) * 16i) + (i32(u32(v326) % u32(4i)) * 4i))) + 3i);
  let v329 = (v9 + v327);
  if (((v328 < P.p0) & (v329 < P.p1))) {
    let v330 = ((v326 * 68i) + v327);
    let v331 = s1[v330 >> 2u][v330 & 3i];
    let v332 = ((v328 * P.p1) + v329);
    let v333 = (v331 + b3[v332]);
    b4[v332] = v333;
  }
  let v334 = (lid + 384i);
  let v335 = i32(u32(v334) / u32(64i));
  let v336 = i32(u32(v334) % u32(64i));
  let v337 = ((v8 + ((i32(u32(v335) / u32(4i)) * 16i) + (i32(u32(v335) % u32(4i)) * 4i))) + 3i);
  let v338 = (v9 + v336);
  if (((v337 < P.p0) & (v338 < P.p1))) {
    let v339 = ((v335 * 68i) + v336);
    let v340 = s1[v339 >> 2u][v339 & 3i];
    let v341 = ((v337 * P.p1) + v338);
    let v342 = (v340 + b3[v341]);
    b4[v341] = v342;
  }
}
