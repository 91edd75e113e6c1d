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
  let v19 = (i32(u32(lid) % u32(4i)) * 4i);
  let v20 = i32(u32((P.p5 + (min((v8 + v18), (P.p0 - 1i)) * P.p3))) / u32(4i));
  let v21 = ((v19 * 36i) + v18);
  var v22: vec4<f32> = vec4<f32>(0f);
  let v23 = i32(u32(lid) / u32(64i));
  let v24 = i32(u32(lid) % u32(64i));
  let v25 = (P.p8 + (min((v9 + v24), (P.p1 - 1i)) * P.p7));
  let v26 = ((v23 * 68i) + v24);
  var v27: f32 = 0f;
  let v28 = (lid + 128i);
  let v29 = i32(u32(v28) / u32(64i));
  let v30 = i32(u32(v28) % u32(64i));
  let v31 = (P.p8 + (min((v9 + v30), (P.p1 - 1i)) * P.p7));
  let v32 = ((v29 * 68i) + v30);
  var v33: f32 = 0f;
  let v34 = (lid + 256i);
  let v35 = i32(u32(v34) / u32(64i));
  let v36 = i32(u32(v34) % u32(64i));
  let v37 = (P.p8 + (min((v9 + v36), (P.p1 - 1i)) * P.p7));
  let v38 = ((v35 * 68i) + v36);
  var v39: f32 = 0f;
  let v40 = (lid + 384i);
  let v41 = i32(u32(v40) / u32(64i));
  let v42 = i32(u32(v40) % u32(64i));
  let v43 = (P.p8 + (min((v9 + v42), (P.p1 - 1i)) * P.p7));
  let v44 = ((v41 * 68i) + v42);
  var v45: f32 = 0f;
  let v46 = (lid + 512i);
  let v47 = i32(u32(v46) / u32(64i));
  let v48 = i32(u32(v46) % u32(64i));
  let v49 = (P.p8 + (min((v9 + v48), (P.p1 - 1i)) * P.p7));
  let v50 = ((v47 * 68i) + v48);
  var v51: f32 = 0f;
  let v52 = (lid + 640i);
  let v53 = i32(u32(v52) / u32(64i));
  let v54 = i32(u32(v52) % u32(64i));
  let v55 = (P.p8 + (min((v9 + v54), (P.p1 - 1i)) * P.p7));
  let v56 = ((v53 * 68i) + v54);
  var v57: f32 = 0f;
  let v58 = (lid + 768i);
  let v59 = i32(u32(v58) / u32(64i));
  let v60 = i32(u32(v58) % u32(64i));
  let v61 = (P.p8 + (min((v9 + v60), (P.p1 - 1i)) * P.p7));
  let v62 = ((v59 * 68i) + v60);
  var v63: f32 = 0f;
  let v64 = (lid + 896i);
  let v65 = i32(u32(v64) / u32(64i));
  let v66 = i32(u32(v64) % u32(64i));
  let v67 = (P.p8 + (min((v9 + v66), (P.p1 - 1i)) * P.p7));
  let v68 = ((v65 * 68i) + v66);
  var v69: f32 = 0f;
  var v70: vec4<f32> = vec4<f32>(0f);
  var v71: vec4<f32> = vec4<f32>(0f);
  var v72: vec4<f32> = vec4<f32>(0f);
  var v73: vec4<f32> = vec4<f32>(0f);
  let v74 = (P.p2 - 16i);
  let v75 = (i32(u32(((P.p2 - 0i) - 1i)) % u32(16i)) + 1i);
  let v76 = select(P.p2, (v75 - 16i), (0i < P.p2));
  if ((0i < P.p2)) {
    let v77 = min(v19, (v75 - 4i));
    let v78 = (v20 + i32(u32(v77) / u32(4i)));
    let v79 = b0[v78];
    v22 = select(vec4<f32>(0f), v79, vec4<bool>((v19 < v75)));
    let v80 = min(v23, (v75 - 1i));
    let v81 = (v25 + (v80 * P.p6));
    let v82 = b1[v81];
    v27 = select(0f, v82, (v23 < v75));
    let v83 = min(v29, (v75 - 1i));
    let v84 = (v31 + (v83 * P.p6));
    let v85 = b1[v84];
    v33 = select(0f, v85, (v29 < v75));
    let v86 = min(v35, (v75 - 1i));
    let v87 = (v37 + (v86 * P.p6));
    let v88 = b1[v87];
    v39 = select(0f, v88, (v35 < v75));
    let v89 = min(v41, (v75 - 1i));
    let v90 = (v43 + (v89 * P.p6));
    let v91 = b1[v90];
    v45 = select(0f, v91, (v41 < v75));
    let v92 = min(v47, (v75 - 1i));
    let v93 = (v49 + (v92 * P.p6));
    let v94 = b1[v93];
    v51 = select(0f, v94, (v47 < v75));
    let v95 = min(v53, (v75 - 1i));
    let v96 = (v55 + (v95 * P.p6));
    let v97 = b1[v96];
    v57 = select(0f, v97, (v53 < v75));
    let v98 = min(v59, (v75 - 1i));
    let v99 = (v61 + (v98 * P.p6));
    let v100 = b1[v99];
    v63 = select(0f, v100, (v59 < v75));
    let v101 = min(v65, (v75 - 1i));
    let v102 = (v67 + (v101 * P.p6));
    let v103 = b1[v102];
    v69 = select(0f, v103, (v65 < v75));
    s0[v21 >> 2u][v21 & 3i] = v22.x;
    let v104 = (v21 + 36i);
    s0[v104 >> 2u][v104 & 3i] = v22.y;
    let v105 = (v21 + 72i);
    s0[v105 >> 2u][v105 & 3i] = v22.z;
    let v106 = (v21 + 108i);
    s0[v106 >> 2u][v106 & 3i] = v22.w;
    s1[v26 >> 2u][v26 & 3i] = v27;
    s1[v32 >> 2u][v32 & 3i] = v33;
    s1[v38 >> 2u][v38 & 3i] = v39;
    s1[v44 >> 2u][v44 & 3i] = v45;
    s1[v50 >> 2u][v50 & 3i] = v51;
    s1[v56 >> 2u][v56 & 3i] = v57;
    s1[v62 >> 2u][v62 & 3i] = v63;
    s1[v68 >> 2u][v68 & 3i] = v69;
  }
  workgroupBarrier();
  var v107: i32 = 0i;
  for (var v108: i32 = v76; v108 < P.p2; v108 += 16i) {
    let v109 = min((v108 + 16i), v74);
    let v110 = (v20 + i32(u32((v109 + v19)) / u32(4i)));
    let v111 = b0[v110];
    v22 = v111;
    let v112 = (v25 + ((v109 + v23) * P.p6));
    let v113 = b1[v112];
    v27 = v113;
    let v114 = (v31 + ((v109 + v29) * P.p6));
    let v115 = b1[v114];
    v33 = v115;
    let v116 = (v37 + ((v109 + v35) * P.p6));
    let v117 = b1[v116];
    v39 = v117;
    let v118 = (v43 + ((v109 + v41) * P.p6));
    let v119 = b1[v118];
    v45 = v119;
    let v120 = (v49 + ((v109 + v47) * P.p6));
    let v121 = b1[v120];
    v51 = v121;
    let v122 = (v55 + ((v109 + v53) * P.p6));
    let v123 = b1[v122];
    v57 = v123;
    let v124 = (v61 + ((v109 + v59) * P.p6));
    let v125 = b1[v124];
    v63 = v125;
    let v126 = (v67 + ((v109 + v65) * P.p6));
    let v127 = b1[v126];
    v69 = v127;
    let v128 = (v107 * 144i);
    let v129 = (v107 * 272i);
    let v130 = (v128 + i32(u32(v15) / u32(4i)));
    let v131 = (v129 + i32(u32(v16) / u32(4i)));
    let v132 = s0[v130];
    let v133 = s1[v131];
    v70 = fma(vec4<f32>(v132.x), v133, v70);
    v71 = fma(vec4<f32>(v132.y), v133, v71);
    v72 = fma(vec4<f32>(v132.z), v133, v72);
    v73 = fma(vec4<f32>(v132.w), v133, v73);
    let v134 = s0[(v130 + 9i)];
    let v135 = s1[(v131 + 17i)];
    v70 = fma(vec4<f32>(v134.x), v135, v70);
    v71 = fma(vec4<f32>(v134.y), v135, v71);
    v72 = fma(vec4<f32>(v134.z), v135, v72);
    v73 = fma(vec4<f32>(v134.w), v135, v73);
    let v136 = s0[(v130 + 18i)];
    let v137 = s1[(v131 + 34i)];
    v70 = fma(vec4<f32>(v136.x), v137, v70);
    v71 = fma(vec4<f32>(v136.y), v137, v71);
    v72 = fma(vec4<f32>(v136.z), v137, v72);
    v73 = fma(vec4<f32>(v136.w), v137, v73);
    let v138 = s0[(v130 + 27i)];
    let v139 = s1[(v131 + 51i)];
    v70 = fma(vec4<f32>(v138.x), v139, v70);
    v71 = fma(vec4<f32>(v138.y), v139, v71);
    v72 = fma(vec4<f32>(v138.z), v139, v72);
    v73 = fma(vec4<f32>(v138.w), v139, v73);
    let v140 = s0[(v130 + 36i)];
    let v141 = s1[(v131 + 68i)];
    v70 = fma(vec4<f32>(v140.x), v141, v70);
    v71 = fma(vec4<f32>(v140.y), v141, v71);
    v72 = fma(vec4<f32>(v140.z), v141, v72);
    v73 = fma(vec4<f32>(v140.w), v141, v73);
    let v142 = s0[(v130 + 45i)];
    let v143 = s1[(v131 + 85i)];
    v70 = fma(vec4<f32>(v142.x), v143, v70);
    v71 = fma(vec4<f32>(v142.y), v143, v71);
    v72 = fma(vec4<f32>(v142.z), v143, v72);
    v73 = fma(vec4<f32>(v142.w), v143, v73);
    let v144 = s0[(v130 + 54i)];
    let v145 = s1[(v131 + 102i)];
    v70 = fma(vec4<f32>(v144.x), v145, v70);
    v71 = fma(vec4<f32>(v144.y), v145, v71);
    v72 = fma(vec4<f32>(v144.z), v145, v72);
    v73 = fma(vec4<f32>(v144.w), v145, v73);
    let v146 = s0[(v130 + 63i)];
    let v147 = s1[(v131 + 119i)];
    v70 = fma(vec4<f32>(v146.x), v147, v70);
    v71 = fma(vec4<f32>(v146.y), v147, v71);
    v72 = fma(vec4<f32>(v146.z), v147, v72);
    v73 = fma(vec4<f32>(v146.w), v147, v73);
    let v148 = s0[(v130 + 72i)];
    let v149 = s1[(v131 + 136i)];
    v70 = fma(vec4<f32>(v148.x), v149, v70);
    v71 = fma(vec4<f32>(v148.y), v149, v71);
    v72 = fma(vec4<f32>(v148.z), v149, v72);
    v73 = fma(vec4<f32>(v148.w), v149, v73);
    let v150 = s0[(v130 + 81i)];
    let v151 = s1[(v131 + 153i)];
    v70 = fma(vec4<f32>(v150.x), v151, v70);
    v71 = fma(vec4<f32>(v150.y), v151, v71);
    v72 = fma(vec4<f32>(v150.z), v151, v72);
    v73 = fma(vec4<f32>(v150.w), v151, v73);
    let v152 = s0[(v130 + 90i)];
    let v153 = s1[(v131 + 170i)];
    v70 = fma(vec4<f32>(v152.x), v153, v70);
    v71 = fma(vec4<f32>(v152.y), v153, v71);
    v72 = fma(vec4<f32>(v152.z), v153, v72);
    v73 = fma(vec4<f32>(v152.w), v153, v73);
    let v154 = s0[(v130 + 99i)];
    let v155 = s1[(v131 + 187i)];
    v70 = fma(vec4<f32>(v154.x), v155, v70);
    v71 = fma(vec4<f32>(v154.y), v155, v71);
    v72 = fma(vec4<f32>(v154.z), v155, v72);
    v73 = fma(vec4<f32>(v154.w), v155, v73);
    let v156 = s0[(v130 + 108i)];
    let v157 = s1[(v131 + 204i)];
    v70 = fma(vec4<f32>(v156.x), v157, v70);
    v71 = fma(vec4<f32>(v156.y), v157, v71);
    v72 = fma(vec4<f32>(v156.z), v157, v72);
    v73 = fma(vec4<f32>(v156.w), v157, v73);
    let v158 = s0[(v130 + 117i)];
    let v159 = s1[(v131 + 221i)];
    v70 = fma(vec4<f32>(v158.x), v159, v70);
    v71 = fma(vec4<f32>(v158.y), v159, v71);
    v72 = fma(vec4<f32>(v158.z), v159, v72);
    v73 = fma(vec4<f32>(v158.w), v159, v73);
    let v160 = s0[(v130 + 126i)];
    let v161 = s1[(v131 + 238i)];
    v70 = fma(vec4<f32>(v160.x), v161, v70);
    v71 = fma(vec4<f32>(v160.y), v161, v71);
    v72 = fma(vec4<f32>(v160.z), v161, v72);
    v73 = fma(vec4<f32>(v160.w), v161, v73);
    let v162 = s0[(v130 + 135i)];
    let v163 = s1[(v131 + 255i)];
    v70 = fma(vec4<f32>(v162.x), v163, v70);
    v71 = fma(vec4<f32>(v162.y), v163, v71);
    v72 = fma(vec4<f32>(v162.z), v163, v72);
    v73 = fma(vec4<f32>(v162.w), v163, v73);
    let v164 = (1i - v107);
    let v165 = (v164 * 576i);
    let v166 = (v165 + v21);
    s0[v166 >> 2u][v166 & 3i] = v22.x;
    let v167 = ((v165 + v21) + 36i);
    s0[v167 >> 2u][v167 & 3i] = v22.y;
    let v168 = ((v165 + v21) + 72i);
    s0[v168 >> 2u][v168 & 3i] = v22.z;
    let v169 = ((v165 + v21) + 108i);
    s0[v169 >> 2u][v169 & 3i] = v22.w;
    let v170 = (v164 * 1088i);
    let v171 = (v170 + v26);
    s1[v171 >> 2u][v171 & 3i] = v27;
    let v172 = (v170 + v32);
    s1[v172 >> 2u][v172 & 3i] = v33;
    let v173 = (v170 + v38);
    s1[v173 >> 2u][v173 & 3i] = v39;
    let v174 = (v170 + v44);
    s1[v174 >> 2u][v174 & 3i] = v45;
    let v175 = (v170 + v50);
    s1[v175 >> 2u][v175 & 3i] = v51;
    let v176 = (v170 + v56);
    s1[v176 >> 2u][v176 & 3i] = v57;
    let v177 = (v170 + v62);
    s1[v177 >> 2u][v177 & 3i] = v63;
    let v178 = (v170 + v68);
    s1[v178 >> 2u][v178 & 3i] = v69;
    workgroupBarrier();
    v107 = v164;
  }
  let v179 = (((i32(u32(v15) / u32(16i)) * 4i) + i32(u32(i32(u32(v15) % u32(16i))) / u32(4i))) * 68i);
  let v180 = (v9 + v16);
  let v181 = (P.p10 + (min(v180, (P.p1 - 1i)) * P.p9));
  let v182 = b2[v181];
  let v183 = (P.p10 + (min((v180 + 1i), (P.p1 - 1i)) * P.p9));
  let v184 = b2[v183];
  let v185 = (P.p10 + (min((v180 + 2i), (P.p1 - 1i)) * P.p9));
  let v186 = b2[v185];
  let v187 = (P.p10 + (min((v180 + 3i), (P.p1 - 1i)) * P.p9));
  let v188 = b2[v187];
  let v189 = vec4<f32>(v182, v184, v186, v188);
  let v190 = i32(u32((v179 + v16)) / u32(4i));
  let v191 = (v70 + v189);
  let v192 = ((vec4<f32>(0.5f) * v191) * (vec4<f32>(1f) + erf_f32x4((v191 * vec4<f32>(0.70710677f)))));
  s1[v190] = v192;
  workgroupBarrier();
  let v193 = i32(u32(lid) / u32(64i));
  let v194 = i32(u32(lid) % u32(64i));
  let v195 = (v8 + ((i32(u32(v193) / u32(4i)) * 16i) + (i32(u32(v193) % u32(4i)) * 4i)));
  let v196 = (v9 + v194);
  if (((v195 < P.p0) & (v196 < P.p1))) {
    let v197 = ((v193 * 68i) + v194);
    let v198 = s1[v197 >> 2u][v197 & 3i];
    let v199 = ((v195 * P.p1) + v196);
    let v200 = (v198 + b3[v199]);
    b4[v199] = v200;
  }
  let v201 = (lid + 128i);
  let v202 = i32(u32(v201) / u32(64i));
  let v203 = i32(u32(v201) % u32(64i));
  let v204 = (v8 + ((i32(u32(v202) / u32(4i)) * 16i) + (i32(u32(v202) % u32(4i)) * 4i)));
  let v205 = (v9 + v203);
  if (((v204 < P.p0) & (v205 < P.p1))) {
    let v206 = ((v202 * 68i) + v203);
    let v207 = s1[v206 >> 2u][v206 & 3i];
    let v208 = ((v204 * P.p1) + v205);
    let v209 = (v207 + b3[v208]);
    b4[v208] = v209;
  }
  let v210 = (lid + 256i);
  let v211 = i32(u32(v210) / u32(64i));
  let v212 = i32(u32(v210) % u32(64i));
  let v213 = (v8 + ((i32(u32(v211) / u32(4i)) * 16i) + (i32(u32(v211) % u32(4i)) * 4i)));
  let v214 = (v9 + v212);
  if (((v213 < P.p0) & (v214 < P.p1))) {
    let v215 = ((v211 * 68i) + v212);
    let v216 = s1[v215 >> 2u][v215 & 3i];
    let v217 = ((v213 * P.p1) + v214);
    let v218 = (v216 + b3[v217]);
    b4[v217] = v218;
  }
  let v219 = (lid + 384i);
  let v220 = i32(u32(v219) / u32(64i));
  let v221 = i32(u32(v219) % u32(64i));
  let v222 = (v8 + ((i32(u32(v220) / u32(4i)) * 16i) + (i32(u32(v220) % u32(4i)) * 4i)));
  let v223 = (v9 + v221);
  if (((v222 < P.p0) & (v223 < P.p1))) {
    let v224 = ((v220 * 68i) + v221);
    let v225 = s1[v224 >> 2u][v224 & 3i];
    let v226 = ((v222 * P.p1) + v223);
    let v227 = (v225 + b3[v226]);
    b4[v226] = v227;
  }
  workgroupBarrier();
  let v228 = i32(u32((v179 + v16)) / u32(4i));
  let v229 = (v71 + v189);
  let v230 = ((vec4<f32>(0.5f) * v229) * (vec4<f32>(1f) + erf_f32x4((v229 * vec4<f32>(0.70710677f)))));
  s1[v228] = v230;
  workgroupBarrier();
  let v231 = i32(u32(lid) / u32(64i));
  let v232 = i32(u32(lid) % u32(64i));
  let v233 = ((v8 + ((i32(u32(v231) / u32(4i)) * 16i) + (i32(u32(v231) % u32(4i)) * 4i))) + 1i);
  let v234 = (v9 + v232);
  if (((v233 < P.p0) & (v234 < P.p1))) {
    let v235 = ((v231 * 68i) + v232);
    let v236 = s1[v235 >> 2u][v235 & 3i];
    let v237 = ((v233 * P.p1) + v234);
    let v238 = (v236 + b3[v237]);
    b4[v237] = v238;
  }
  let v239 = (lid + 128i);
  let v240 = i32(u32(v239) / u32(64i));
  let v241 = i32(u32(v239) % u32(64i));
  let v242 = ((v8 + ((i32(u32(v240) / u32(4i)) * 16i) + (i32(u32(v240) % u32(4i)) * 4i))) + 1i);
  let v243 = (v9 + v241);
  if (((v242 < P.p0) & (v243 < P.p1))) {
    let v244 = ((v240 * 68i) + v241);
    let v245 = s1[v244 >> 2u][v244 & 3i];
    let v246 = ((v242 * P.p1) + v243);
    let v247 = (v245 + b3[v246]);
    b4[v246] = v247;
  }
  let v248 = (lid + 256i);
  let v249 = i32(u32(v248) / u32(64i));
  let v250 = i32(u32(v248) % u32(64i));
  let v251 = ((v8 + ((i32(u32(v249) / u32(4i)) * 16i) + (i32(u32(v249) % u32(4i)) * 4i))) + 1i);
  let v252 = (v9 + v250);
  if (((v251 < P.p0) & (v252 < P.p1))) {
    let v253 = ((v249 * 68i) + v250);
    let v254 = s1[v253 >> 2u][v253 & 3i];
    let v255 = ((v251 * P.p1) + v252);
    let v256 = (v254 + b3[v255]);
    b4[v255] = v256;
  }
  let v257 = (lid + 384i);
  let v258 = i32(u32(v257) / u32(64i));
  let v259 = i32(u32(v257) % u32(64i));
  let v260 = ((v8 + ((i32(u32(v258) / u32(4i)) * 16i) + (i32(u32(v258) % u32(4i)) * 4i))) + 1i);
  let v261 = (v9 + v259);
  if (((v260 < P.p0) & (v261 < P.p1))) {
    let v262 = ((v258 * 68i) + v259);
    let v263 = s1[v262 >> 2u][v262 & 3i];
    let v264 = ((v260 * P.p1) + v261);
    let v265 = (v263 + b3[v264]);
    b4[v264] = v265;
  }
  workgroupBarrier();
  let v266 = i32(u32((v179 + v16)) / u32(4i));
  let v267 = (v72 + v189);
  let v268 = ((vec4<f32>(0.5f) * v267) * (vec4<f32>(1f) + erf_f32x4((v267 * vec4<f32>(0.70710677f)))));
  s1[v266] = v268;
  workgroupBarrier();
  let v269 = i32(u32(lid) / u32(64i));
  let v270 = i32(u32(lid) % u32(64i));
  let v271 = ((v8 + ((i32(u32(v269) / u32(4i)) * 16i) + (i32(u32(v269) % u32(4i)) * 4i))) + 2i);
  let v272 = (v9 + v270);
  if (((v271 < P.p0) & (v272 < P.p1))) {
    let v273 = ((v269 * 68i) + v270);
    let v274 = s1[v273 >> 2u][v273 & 3i];
    let v275 = ((v271 * P.p1) + v272);
    let v276 = (v274 + b3[v275]);
    b4[v275] = v276;
  }
  let v277 = (lid + 128i);
  let v278 = i32(u32(v277) / u32(64i));
  let v279 = i32(u32(v277) % u32(64i));
  let v280 = ((v8 + ((i32(u32(v278) / u32(4i)) * 16i) + (i32(u32(v278) % u32(4i)) * 4i))) + 2i);
  let v281 = (v9 + v279);
  if (((v280 < P.p0) & (v281 < P.p1))) {
    let v282 = ((v278 * 68i) + v279);
    let v283 = s1[v282 >> 2u][v282 & 3i];
    let v284 = ((v280 * P.p1) + v281);
    let v285 = (v283 + b3[v284]);
    b4[v284] = v285;
  }
  let v286 = (lid + 256i);
  let v287 = i32(u32(v286) / u32(64i));
  let v288 = i32(u32(v286) % u32(64i));
  let v289 = ((v8 + ((i32(u32(v287) / u32(4i)) * 16i) + (i32(u32(v287) % u32(4i)) * 4i))) + 2i);
  let v290 = (v9 + v288);
  if (((v289 < P.p0) & (v290 < P.p1))) {
    let v291 = ((v287 * 68i) + v288);
    let v292 = s1[v291 >> 2u][v291 & 3i];
    let v293 = ((v289 * P.p1) + v290);
    let v294 = (v292 + b3[v293]);
    b4[v293] = v294;
  }
  let v295 = (lid + 384i);
  let v296 = i32(u32(v295) / u32(64i));
  let v297 = i32(u32(v295) % u32(64i));
  let v298 = ((v8 + ((i32(u32(v296) / u32(4i)) * 16i) + (i32(u32(v296) % u32(4i)) * 4i))) + 2i);
  let v299 = (v9 + v297);
  if (((v298 < P.p0) & (v299 < P.p1))) {
    let v300 = ((v296 * 68i) + v297);
    let v301 = s1[v300 >> 2u][v300 & 3i];
    let v302 = ((v298 * P.p1) + v299);
    let v303 = (v301 + b3[v302]);
    b4[v302] = v303;
  }
  workgroupBarrier();
  let v304 = i32(u32((v179 + v16)) / u32(4i));
  let v305 = (v73 + v189);
  let v306 = ((vec4<f32>(0.5f) * v305) * (vec4<f32>(1f) + erf_f32x4((v305 * vec4<f32>(0.70710677f)))));
  s1[v304] = v306;
  workgroupBarrier();
  let v307 = i32(u32(lid) / u32(64i));
  let v308 = i32(u32(lid) % u32(64i));
  let v309 = ((v8 + ((i32(u32(v307) / u32(4i)) * 16i) + (i32(u32(v307) % u32(4i)) * 4i))) + 3i);
  let v310 = (v9 + v308);
  if (((v309 < P.p0) & (v310 < P.p1))) {
    let v311 = ((v307 * 68i) + v308);
    let v312 = s1[v311 >> 2u][v311 & 3i];
    let v313 = ((v309 * P.p1) + v310);
    let v314 = (v312 + b3[v313]);
    b4[v313] = v314;
  }
  let v315 = (lid + 128i);
  let v316 = i32(u32(v315) / u32(64i));
  let v317 = i32(u32(v315) % u32(64i));
  let v318 = ((v8 + ((i32(u32(v316) / u32(4i)) * 16i) + (i32(u32(v316) % u32(4i)) * 4i))) + 3i);
  let v319 = (v9 + v317);
  if (((v318 < P.p0) & (v319 < P.p1))) {
    let v320 = ((v316 * 68i) + v317);
    let v321 = s1[v320 >> 2u][v320 & 3i];
    let v322 = ((v318 * P.p1) + v319);
    let v323 = (v321 + b3[v322]);
    b4[v322] = v323;
  }
  let v324 = (lid + 256i);
  let v325 = i32(u32(v324) / u32(64i));
  let v326 = i32(u32(v324) % u32(64i));
  let v327 = ((v8 + ((i32(u32(v325) / u32(4i)) * 16i) + (i32(u32(v325) % u32(4i)) * 4i))) + 3i);
  let v328 = (v9 + v326);
  if (((v327 < P.p0) & (v328 < P.p1))) {
    let v329 = ((v325 * 68i) + v326);
    let v330 = s1[v329 >> 2u][v329 & 3i];
    let v331 = ((v327 * P.p1) + v328);
    let v332 = (v330 + b3[v331]);
    b4[v331] = v332;
  }
  let v333 = (lid + 384i);
  let v334 = i32(u32(v333) / u32(64i));
  let v335 = i32(u32(v333) % u32(64i));
  let v336 = ((v8 + ((i32(u32(v334) / u32(4i)) * 16i) + (i32(u32(v334) % u32(4i)) * 4i))) + 3i);
  let v337 = (v9 + v335);
  if (((v336 < P.p0) & (v337 < P.p1))) {
    let v338 = ((v334 * 68i) + v335);
    let v339 = s1[v338 >> 2u][v338 & 3i];
    let v340 = ((v336 * P.p1) + v337);
    let v341 = (v339 + b3[v340]);
    b4[v340] = v341;
  }
}
