@group(0) @binding(0) var<storage, read> b0: array<f32>;
@group(0) @binding(1) var<storage, read> b1: array<f32>;
@group(0) @binding(2) var<storage, read> b2: array<f32>;
@group(0) @binding(3) var<storage, read_write> b3: array<f32>;
@group(0) @binding(4) var<storage, read_write> b4: array<f32>;
struct Params {
  p0: i32,
  p1: i32,
  p2: i32,
  p3: i32,
  p4: i32,
  p5: i32,
  p6: i32,
  p7: f32,
  p8: i32,
  p9: i32,
  p10: i32,
  p11: i32,
  p12: i32,
  p13: i32,
  p14: i32,
  p15: i32,
  p16: i32,
  p17: i32,
  p18: i32,
  p19: i32,
  p20: i32,
  p21: i32,
  p22: i32,
}
@group(0) @binding(5) var<uniform> P: Params;
var<workgroup> s0: array<vec4<f32>, 40>;
var<workgroup> s1: array<vec4<f32>, 40>;
var<workgroup> s2: array<vec4<f32>, 24>;
var<workgroup> s3: array<vec4<f32>, 8>;
fn from_bits(x: u32) -> f32 {
  return bitcast<f32>(x);
}
@compute @workgroup_size(16)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let gid = i32(wg.y * 32768u + wg.x);
  let lid = i32(local);
  let v0 = ((i32(u32(lid) / u32(8i)) * 2i) + i32(u32(lid) % u32(2i)));
  let v1 = i32(u32(i32(u32(lid) % u32(8i))) / u32(2i));
  let v2 = (P.p0 * P.p1);
  let v3 = i32(u32(gid) / u32(v2));
  let v4 = i32(u32(gid) % u32(v2));
  let v5 = i32(u32(v4) / u32(P.p1));
  let v6 = i32(u32(v4) % u32(P.p1));
  let v7 = (i32(u32((P.p3 - 1i)) / u32(8i)) - v3);
  let v8 = (v7 * 8i);
  var v9: vec4<f32> = vec4<f32>(0f);
  var v10: vec4<f32> = vec4<f32>(0f);
  let v11 = i32(u32(P.p1) / u32(P.p2));
  let v12 = ((P.p12 + (v5 * P.p8)) + (v6 * P.p9));
  let v13 = i32(u32(lid) / u32(4i));
  let v14 = i32(u32(lid) % u32(4i));
  let v15 = (v12 + (min((v8 + v13), (P.p3 - 1i)) * P.p10));
  let v16 = (v14 * 4i);
  let v17 = (v15 + (min(v16, (P.p5 - 1i)) * P.p11));
  let v18 = b0[v17];
  let v19 = select(0f, v18, (v16 < P.p5));
  let v20 = ((v14 * 4i) + 1i);
  let v21 = (v15 + (min(v20, (P.p5 - 1i)) * P.p11));
  let v22 = b0[v21];
  let v23 = select(0f, v22, (v20 < P.p5));
  let v24 = ((v14 * 4i) + 2i);
  let v25 = (v15 + (min(v24, (P.p5 - 1i)) * P.p11));
  let v26 = b0[v25];
  let v27 = select(0f, v26, (v24 < P.p5));
  let v28 = ((v14 * 4i) + 3i);
  let v29 = (v15 + (min(v28, (P.p5 - 1i)) * P.p11));
  let v30 = b0[v29];
  let v31 = select(0f, v30, (v28 < P.p5));
  let v32 = vec4<f32>(v19, v23, v27, v31);
  let v33 = i32(u32((lid + 16i)) / u32(4i));
  let v34 = i32(u32((lid + 16i)) % u32(4i));
  let v35 = (v12 + (min((v8 + v33), (P.p3 - 1i)) * P.p10));
  let v36 = (v34 * 4i);
  let v37 = (v35 + (min(v36, (P.p5 - 1i)) * P.p11));
  let v38 = b0[v37];
  let v39 = select(0f, v38, (v36 < P.p5));
  let v40 = ((v34 * 4i) + 1i);
  let v41 = (v35 + (min(v40, (P.p5 - 1i)) * P.p11));
  let v42 = b0[v41];
  let v43 = select(0f, v42, (v40 < P.p5));
  let v44 = ((v34 * 4i) + 2i);
  let v45 = (v35 + (min(v44, (P.p5 - 1i)) * P.p11));
  let v46 = b0[v45];
  let v47 = select(0f, v46, (v44 < P.p5));
  let v48 = ((v34 * 4i) + 3i);
  let v49 = (v35 + (min(v48, (P.p5 - 1i)) * P.p11));
  let v50 = b0[v49];
  let v51 = select(0f, v50, (v48 < P.p5));
  let v52 = vec4<f32>(v39, v43, v47, v51);
  let v53 = (v32 * vec4<f32>(P.p7));
  let v54 = ((i32(u32(lid) / u32(4i)) * 5i) + i32(u32(lid) % u32(4i)));
  s1[v54] = v53;
  let v55 = (v52 * vec4<f32>(P.p7));
  let v56 = ((i32(u32((lid + 16i)) / u32(4i)) * 5i) + i32(u32((lid + 16i)) % u32(4i)));
  s1[v56] = v55;
  var v57: f32 = from_bits(0xff800000u);
  var v58: f32 = 0f;
  var v59: f32 = from_bits(0xff800000u);
  var v60: f32 = 0f;
  let v61 = i32(u32(v6) / u32(v11));
  let v62 = ((P.p17 + (v5 * P.p13)) + (v61 * P.p14));
  let v63 = ((P.p22 + (v5 * P.p18)) + (v61 * P.p19));
  let v64 = min(P.p4, (v8 + 8i));
  let v65 = i32(u32(lid) / u32(4i));
  let v66 = i32(u32(lid) % u32(4i));
  let v67 = (v62 + (min(v65, (P.p4 - 1i)) * P.p15));
  let v68 = (v66 * 4i);
  let v69 = (v67 + (min(v68, (P.p5 - 1i)) * P.p16));
  let v70 = b1[v69];
  let v71 = select(0f, v70, (v68 < P.p5));
  let v72 = ((v66 * 4i) + 1i);
  let v73 = (v67 + (min(v72, (P.p5 - 1i)) * P.p16));
  let v74 = b1[v73];
  let v75 = select(0f, v74, (v72 < P.p5));
  let v76 = ((v66 * 4i) + 2i);
  let v77 = (v67 + (min(v76, (P.p5 - 1i)) * P.p16));
  let v78 = b1[v77];
  let v79 = select(0f, v78, (v76 < P.p5));
  let v80 = ((v66 * 4i) + 3i);
  let v81 = (v67 + (min(v80, (P.p5 - 1i)) * P.p16));
  let v82 = b1[v81];
  let v83 = select(0f, v82, (v80 < P.p5));
  let v84 = vec4<f32>(v71, v75, v79, v83);
  let v85 = i32(u32((lid + 16i)) / u32(4i));
  let v86 = i32(u32((lid + 16i)) % u32(4i));
  let v87 = (v62 + (min(v85, (P.p4 - 1i)) * P.p15));
  let v88 = (v86 * 4i);
  let v89 = (v87 + (min(v88, (P.p5 - 1i)) * P.p16));
  let v90 = b1[v89];
  let v91 = select(0f, v90, (v88 < P.p5));
  let v92 = ((v86 * 4i) + 1i);
  let v93 = (v87 + (min(v92, (P.p5 - 1i)) * P.p16));
  let v94 = b1[v93];
  let v95 = select(0f, v94, (v92 < P.p5));
  let v96 = ((v86 * 4i) + 2i);
  let v97 = (v87 + (min(v96, (P.p5 - 1i)) * P.p16));
  let v98 = b1[v97];
  let v99 = select(0f, v98, (v96 < P.p5));
  let v100 = ((v86 * 4i) + 3i);
  let v101 = (v87 + (min(v100, (P.p5 - 1i)) * P.p16));
  let v102 = b1[v101];
  let v103 = select(0f, v102, (v100 < P.p5));
  let v104 = vec4<f32>(v91, v95, v99, v103);
  var v105: vec4<f32> = v84;
  var v106: vec4<f32> = v104;
  for (var v107: i32 = 0i; v107 < v64; v107 += 8i) {
    let v108 = ((i32(u32(lid) / u32(4i)) * 5i) + i32(u32(lid) % u32(4i)));
    s0[v108] = v105;
    let v109 = ((i32(u32((lid + 16i)) / u32(4i)) * 5i) + i32(u32((lid + 16i)) % u32(4i)));
    s0[v109] = v106;
    workgroupBarrier();
    let v110 = i32(u32(lid) / u32(4i));
    let v111 = i32(u32(lid) % u32(4i));
    let v112 = (v63 + (min((v107 + v110), (P.p4 - 1i)) * P.p20));
    let v113 = (v111 * 4i);
    let v114 = (v112 + (min(v113, (P.p6 - 1i)) * P.p21));
    let v115 = b2[v114];
    let v116 = select(0f, v115, (v113 < P.p6));
    let v117 = ((v111 * 4i) + 1i);
    let v118 = (v112 + (min(v117, (P.p6 - 1i)) * P.p21));
    let v119 = b2[v118];
    let v120 = select(0f, v119, (v117 < P.p6));
    let v121 = ((v111 * 4i) + 2i);
    let v122 = (v112 + (min(v121, (P.p6 - 1i)) * P.p21));
    let v123 = b2[v122];
    let v124 = select(0f, v123, (v121 < P.p6));
    let v125 = ((v111 * 4i) + 3i);
    let v126 = (v112 + (min(v125, (P.p6 - 1i)) * P.p21));
    let v127 = b2[v126];
    let v128 = select(0f, v127, (v125 < P.p6));
    let v129 = vec4<f32>(v116, v120, v124, v128);
    let v130 = i32(u32((lid + 16i)) / u32(4i));
    let v131 = i32(u32((lid + 16i)) % u32(4i));
    let v132 = (v63 + (min((v107 + v130), (P.p4 - 1i)) * P.p20));
    let v133 = (v131 * 4i);
    let v134 = (v132 + (min(v133, (P.p6 - 1i)) * P.p21));
    let v135 = b2[v134];
    let v136 = select(0f, v135, (v133 < P.p6));
    let v137 = ((v131 * 4i) + 1i);
    let v138 = (v132 + (min(v137, (P.p6 - 1i)) * P.p21));
    let v139 = b2[v138];
    let v140 = select(0f, v139, (v137 < P.p6));
    let v141 = ((v131 * 4i) + 2i);
    let v142 = (v132 + (min(v141, (P.p6 - 1i)) * P.p21));
    let v143 = b2[v142];
    let v144 = select(0f, v143, (v141 < P.p6));
    let v145 = ((v131 * 4i) + 3i);
    let v146 = (v132 + (min(v145, (P.p6 - 1i)) * P.p21));
    let v147 = b2[v146];
    let v148 = select(0f, v147, (v145 < P.p6));
    let v149 = vec4<f32>(v136, v140, v144, v148);
    var v150: f32 = 0f;
    var v151: f32 = 0f;
    var v152: f32 = 0f;
    var v153: f32 = 0f;
    let v154 = (v0 * 5i);
    let v155 = (v0 + 4i);
    let v156 = (v155 * 5i);
    let v157 = (v1 * 5i);
    let v158 = (v1 + 4i);
    let v159 = (v158 * 5i);
    for (var v160: i32 = 0i; v160 < 4i; v160 += 1i) {
      let v161 = s1[(v154 + v160)];
      let v162 = s1[(v156 + v160)];
      let v163 = s0[(v157 + v160)];
      let v164 = s0[(v159 + v160)];
      v150 = fma(v161.x, v163.x, v150);
      v151 = fma(v161.x, v164.x, v151);
      v152 = fma(v162.x, v163.x, v152);
      v153 = fma(v162.x, v164.x, v153);
      v150 = fma(v161.y, v163.y, v150);
      v151 = fma(v161.y, v164.y, v151);
      v152 = fma(v162.y, v163.y, v152);
      v153 = fma(v162.y, v164.y, v153);
      v150 = fma(v161.z, v163.z, v150);
      v151 = fma(v161.z, v164.z, v151);
      v152 = fma(v162.z, v163.z, v152);
      v153 = fma(v162.z, v164.z, v153);
      v150 = fma(v161.w, v163.w, v150);
      v151 = fma(v161.w, v164.w, v151);
      v152 = fma(v162.w, v163.w, v152);
      v153 = fma(v162.w, v164.w, v153);
    }
    let v165 = (v107 + 8i);
    if (((P.p4 < v165) | (v8 < (v165 - 1i)))) {
      let v166 = (v107 + v1);
      let v167 = (v166 < P.p4);
      let v168 = (v8 + v0);
      v150 = select(from_bits(0xff800000u), v150, (v167 & (v166 <= v168)));
      let v169 = (v0 + 4i);
      let v170 = (v8 + v169);
      v152 = select(from_bits(0xff800000u), v152, (v167 & (v166 <= v170)));
      let v171 = (v1 + 4i);
      let v172 = (v107 + v171);
      let v173 = (v172 < P.p4);
      let v174 = (v8 + v0);
      v151 = select(from_bits(0xff800000u), v151, (v173 & (v172 <= v174)));
      let v175 = (v0 + 4i);
      let v176 = (v8 + v175);
      v153 = select(from_bits(0xff800000u), v153, (v173 & (v172 <= v176)));
    }
    let v177 = select(v150, v151, (v150 < v151));
    let v178 = ((v0 * 4i) + v1);
    s3[v178 >> 2u][v178 & 3i] = v177;
    let v179 = select(v152, v153, (v152 < v153));
    let v180 = (v0 + 4i);
    let v181 = ((v180 * 4i) + v1);
    s3[v181 >> 2u][v181 & 3i] = v179;
    workgroupBarrier();
    let v182 = ((i32(u32(lid) / u32(4i)) * 5i) + i32(u32(lid) % u32(4i)));
    s0[v182] = v129;
    let v183 = ((i32(u32((lid + 16i)) / u32(4i)) * 5i) + i32(u32((lid + 16i)) % u32(4i)));
    s0[v183] = v149;
    let v184 = s3[v0];
    let v185 = select(v184.x, v184.y, (v184.x < v184.y));
    let v186 = select(v184.z, v184.w, (v184.z < v184.w));
    let v187 = select(v185, v186, (v185 < v186));
    let v188 = select(v187, v57, (v187 < v57));
    let v189 = select(v188, 0f, (v188 == from_bits(0xff800000u)));
    let v190 = exp((v57 - v189));
    v57 = v188;
    let v191 = (v58 * v190);
    let v192 = exp((v150 - v189));
    let v193 = (v191 + v192);
    let v194 = ((v0 * 12i) + v1);
    s2[v194 >> 2u][v194 & 3i] = v192;
    let v195 = exp((v151 - v189));
    let v196 = (v193 + v195);
    let v197 = (v1 + 4i);
    let v198 = ((v0 * 12i) + v197);
    s2[v198 >> 2u][v198 & 3i] = v195;
    v58 = v196;
    v9 = (v9 * vec4<f32>(v190));
    let v199 = (v0 + 4i);
    let v200 = s3[v199];
    let v201 = select(v200.x, v200.y, (v200.x < v200.y));
    let v202 = select(v200.z, v200.w, (v200.z < v200.w));
    let v203 = select(v201, v202, (v201 < v202));
    let v204 = select(v203, v59, (v203 < v59));
    let v205 = select(v204, 0f, (v204 == from_bits(0xff800000u)));
    let v206 = exp((v59 - v205));
    v59 = v204;
    let v207 = (v60 * v206);
    let v208 = exp((v152 - v205));
    let v209 = (v207 + v208);
    let v210 = (v0 + 4i);
    let v211 = ((v210 * 12i) + v1);
    s2[v211 >> 2u][v211 & 3i] = v208;
    let v212 = exp((v153 - v205));
    let v213 = (v209 + v212);
    let v214 = (v0 + 4i);
    let v215 = (v1 + 4i);
    let v216 = ((v214 * 12i) + v215);
    s2[v216 >> 2u][v216 & 3i] = v212;
    v60 = v213;
    v10 = (v10 * vec4<f32>(v206));
    let v217 = (v107 + 8i);
    let v218 = i32(u32(lid) / u32(4i));
    let v219 = i32(u32(lid) % u32(4i));
    let v220 = (v62 + (min((v217 + v218), (P.p4 - 1i)) * P.p15));
    let v221 = (v219 * 4i);
    let v222 = (v220 + (min(v221, (P.p5 - 1i)) * P.p16));
    let v223 = b1[v222];
    let v224 = select(0f, v223, (v221 < P.p5));
    let v225 = ((v219 * 4i) + 1i);
    let v226 = (v220 + (min(v225, (P.p5 - 1i)) * P.p16));
    let v227 = b1[v226];
    let v228 = select(0f, v227, (v225 < P.p5));
    let v229 = ((v219 * 4i) + 2i);
    let v230 = (v220 + (min(v229, (P.p5 - 1i)) * P.p16));
    let v231 = b1[v230];
    let v232 = select(0f, v231, (v229 < P.p5));
    let v233 = ((v219 * 4i) + 3i);
    let v234 = (v220 + (min(v233, (P.p5 - 1i)) * P.p16));
    let v235 = b1[v234];
    let v236 = select(0f, v235, (v233 < P.p5));
    let v237 = vec4<f32>(v224, v228, v232, v236);
    let v238 = i32(u32((lid + 16i)) / u32(4i));
    let v239 = i32(u32((lid + 16i)) % u32(4i));
    let v240 = (v62 + (min((v217 + v238), (P.p4 - 1i)) * P.p15));
    let v241 = (v239 * 4i);
    let v242 = (v240 + (min(v241, (P.p5 - 1i)) * P.p16));
    let v243 = b1[v242];
    let v244 = select(0f, v243, (v241 < P.p5));
    let v245 = ((v239 * 4i) + 1i);
    let v246 = (v240 + (min(v245, (P.p5 - 1i)) * P.p16));
    let v247 = b1[v246];
    let v248 = select(0f, v247, (v245 < P.p5));
    let v249 = ((v239 * 4i) + 2i);
    let v250 = (v240 + (min(v249, (P.p5 - 1i)) * P.p16));
    let v251 = b1[v250];
    let v252 = select(0f, v251, (v249 < P.p5));
    let v253 = ((v239 * 4i) + 3i);
    let v254 = (v240 + (min(v253, (P.p5 - 1i)) * P.p16));
    let v255 = b1[v254];
    let v256 = select(0f, v255, (v253 < P.p5));
    let v257 = vec4<f32>(v244, v248, v252, v256);
    v105 = v237;
    v106 = v257;
    workgroupBarrier();
    let v258 = (v0 * 3i);
    let v259 = (v0 + 4i);
    let v260 = (v259 * 3i);
    for (var v261: i32 = 0i; v261 < 2i; v261 += 1i) {
      let v262 = s2[(v258 + v261)];
      let v263 = s2[(v260 + v261)];
      let v264 = (((v261 * 4i) * 5i) + v1);
      let v265 = s0[v264];
      v9 = fma(vec4<f32>(v262.x), v265, v9);
      v10 = fma(vec4<f32>(v263.x), v265, v10);
      let v266 = ((((v261 * 4i) + 1i) * 5i) + v1);
      let v267 = s0[v266];
      v9 = fma(vec4<f32>(v262.y), v267, v9);
      v10 = fma(vec4<f32>(v263.y), v267, v10);
      let v268 = ((((v261 * 4i) + 2i) * 5i) + v1);
      let v269 = s0[v268];
      v9 = fma(vec4<f32>(v262.z), v269, v9);
      v10 = fma(vec4<f32>(v263.z), v269, v10);
      let v270 = ((((v261 * 4i) + 3i) * 5i) + v1);
      let v271 = s0[v270];
      v9 = fma(vec4<f32>(v262.w), v271, v9);
      v10 = fma(vec4<f32>(v263.w), v271, v10);
    }
    workgroupBarrier();
  }
  let v272 = ((v0 * 4i) + v1);
  s3[v272 >> 2u][v272 & 3i] = v58;
  let v273 = (v0 + 4i);
  let v274 = ((v273 * 4i) + v1);
  s3[v274 >> 2u][v274 & 3i] = v60;
  workgroupBarrier();
  let v275 = s3[v0];
  let v276 = (v275.x + v275.y);
  let v277 = (v275.z + v275.w);
  let v278 = (v276 + v277);
  let v279 = (v278 == 0f);
  let v280 = select((1f / v278), 0f, v279);
  let v281 = (v8 + v0);
  if ((v281 < P.p3)) {
    let v282 = (((((v5 * P.p3) + v281) * P.p1) + v6) * P.p6);
    let v283 = (v9 * vec4<f32>(v280));
    let v284 = (v1 * 4i);
    let v285 = (v282 + v284);
    let v286 = v283.x;
    if ((v284 < P.p6)) {
      b3[v285] = v286;
    }
    let v287 = (v284 + 1i);
    let v288 = (v282 + v287);
    let v289 = v283.y;
    if ((v287 < P.p6)) {
      b3[v288] = v289;
    }
    let v290 = (v284 + 2i);
    let v291 = (v282 + v290);
    let v292 = v283.z;
    if ((v290 < P.p6)) {
      b3[v291] = v292;
    }
    let v293 = (v284 + 3i);
    let v294 = (v282 + v293);
    let v295 = v283.w;
    if ((v293 < P.p6)) {
      b3[v294] = v295;
    }
  }
  let v296 = select((v57 + log(v278)), from_bits(0x7f800000u), v279);
  let v297 = (v8 + v0);
  let v298 = (v8 + v0);
  if (((v298 < P.p3) & (v1 == 0i))) {
    let v299 = ((((v5 * P.p1) + v6) * P.p3) + v297);
    b4[v299] = v296;
  }
  let v300 = (v0 + 4i);
  let v301 = s3[v300];
  let v302 = (v301.x + v301.y);
  let v303 = (v301.z + v301.w);
  let v304 = (v302 + v303);
  let v305 = (v304 == 0f);
  let v306 = select((1f / v304), 0f, v305);
  let v307 = (v0 + 4i);
  let v308 = (v8 + v307);
  if ((v308 < P.p3)) {
    let v309 = (((((v5 * P.p3) + v308) * P.p1) + v6) * P.p6);
    let v310 = (v10 * vec4<f32>(v306));
    let v311 = (v1 * 4i);
    let v312 = (v309 + v311);
    let v313 = v310.x;
    if ((v311 < P.p6)) {
      b3[v312] = v313;
    }
    let v314 = (v311 + 1i);
    let v315 = (v309 + v314);
    let v316 = v310.y;
    if ((v314 < P.p6)) {
      b3[v315] = v316;
    }
    let v317 = (v311 + 2i);
    let v318 = (v309 + v317);
    let v319 = v310.z;
    if ((v317 < P.p6)) {
      b3[v318] = v319;
    }
    let v320 = (v311 + 3i);
    let v321 = (v309 + v320);
    let v322 = v310.w;
    if ((v320 < P.p6)) {
      b3[v321] = v322;
    }
  }
  let v323 = select((v59 + log(v304)), from_bits(0x7f800000u), v305);
  let v324 = (v0 + 4i);
  let v325 = (v8 + v324);
  let v326 = (v0 + 4i);
  let v327 = (v8 + v326);
  if (((v327 < P.p3) & (v1 == 0i))) {
    let v328 = ((((v5 * P.p1) + v6) * P.p3) + v325);
    b4[v328] = v323;
  }
}
