@group(0) @binding(0) var<storage, read> b0: array<f32>;
@group(0) @binding(1) var<storage, read> b1: array<f32>;
@group(0) @binding(2) var<storage, read> b2: array<f32>;
@group(0) @binding(3) var<storage, read> b3: array<u32>;
@group(0) @binding(4) var<storage, read> b4: array<f32>;
@group(0) @binding(5) var<storage, read> b5: array<f32>;
@group(0) @binding(6) var<storage, read_write> b6: array<f32>;
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
  p23: i32,
  p24: i32,
  p25: i32,
  p26: i32,
  p27: i32,
  p28: i32,
  p29: i32,
  p30: i32,
  p31: i32,
  p32: i32,
}
@group(0) @binding(7) var<uniform> P: Params;
var<workgroup> s0: array<vec4<f32>, 40>;
var<workgroup> s1: array<vec4<f32>, 40>;
var<workgroup> s2: array<vec4<f32>, 40>;
var<workgroup> s3: array<vec4<f32>, 24>;
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
  let v7 = (v3 * 8i);
  var v8: vec4<f32> = vec4<f32>(0f);
  var v9: vec4<f32> = vec4<f32>(0f);
  let v10 = i32(u32(P.p1) / u32(P.p2));
  let v11 = ((P.p12 + (v5 * P.p8)) + (v6 * P.p9));
  let v12 = i32(u32(lid) / u32(4i));
  let v13 = i32(u32(lid) % u32(4i));
  let v14 = (v11 + (min((v7 + v12), (P.p3 - 1i)) * P.p10));
  let v15 = (v13 * 4i);
  let v16 = (v14 + (min(v15, (P.p5 - 1i)) * P.p11));
  let v17 = b0[v16];
  let v18 = select(0f, v17, (v15 < P.p5));
  let v19 = ((v13 * 4i) + 1i);
  let v20 = (v14 + (min(v19, (P.p5 - 1i)) * P.p11));
  let v21 = b0[v20];
  let v22 = select(0f, v21, (v19 < P.p5));
  let v23 = ((v13 * 4i) + 2i);
  let v24 = (v14 + (min(v23, (P.p5 - 1i)) * P.p11));
  let v25 = b0[v24];
  let v26 = select(0f, v25, (v23 < P.p5));
  let v27 = ((v13 * 4i) + 3i);
  let v28 = (v14 + (min(v27, (P.p5 - 1i)) * P.p11));
  let v29 = b0[v28];
  let v30 = select(0f, v29, (v27 < P.p5));
  let v31 = vec4<f32>(v18, v22, v26, v30);
  let v32 = i32(u32((lid + 16i)) / u32(4i));
  let v33 = i32(u32((lid + 16i)) % u32(4i));
  let v34 = (v11 + (min((v7 + v32), (P.p3 - 1i)) * P.p10));
  let v35 = (v33 * 4i);
  let v36 = (v34 + (min(v35, (P.p5 - 1i)) * P.p11));
  let v37 = b0[v36];
  let v38 = select(0f, v37, (v35 < P.p5));
  let v39 = ((v33 * 4i) + 1i);
  let v40 = (v34 + (min(v39, (P.p5 - 1i)) * P.p11));
  let v41 = b0[v40];
  let v42 = select(0f, v41, (v39 < P.p5));
  let v43 = ((v33 * 4i) + 2i);
  let v44 = (v34 + (min(v43, (P.p5 - 1i)) * P.p11));
  let v45 = b0[v44];
  let v46 = select(0f, v45, (v43 < P.p5));
  let v47 = ((v33 * 4i) + 3i);
  let v48 = (v34 + (min(v47, (P.p5 - 1i)) * P.p11));
  let v49 = b0[v48];
  let v50 = select(0f, v49, (v47 < P.p5));
  let v51 = vec4<f32>(v38, v42, v46, v50);
  let v52 = (v31 * vec4<f32>(P.p7));
  let v53 = ((i32(u32(lid) / u32(4i)) * 5i) + i32(u32(lid) % u32(4i)));
  s1[v53] = v52;
  let v54 = (v51 * vec4<f32>(P.p7));
  let v55 = ((i32(u32((lid + 16i)) / u32(4i)) * 5i) + i32(u32((lid + 16i)) % u32(4i)));
  s1[v55] = v54;
  let v56 = ((P.p32 + (v5 * P.p28)) + (v6 * P.p29));
  let v57 = i32(u32(lid) / u32(4i));
  let v58 = i32(u32(lid) % u32(4i));
  let v59 = (v56 + (min((v7 + v57), (P.p3 - 1i)) * P.p30));
  let v60 = (v58 * 4i);
  let v61 = (v59 + (min(v60, (P.p6 - 1i)) * P.p31));
  let v62 = b4[v61];
  let v63 = select(0f, v62, (v60 < P.p6));
  let v64 = ((v58 * 4i) + 1i);
  let v65 = (v59 + (min(v64, (P.p6 - 1i)) * P.p31));
  let v66 = b4[v65];
  let v67 = select(0f, v66, (v64 < P.p6));
  let v68 = ((v58 * 4i) + 2i);
  let v69 = (v59 + (min(v68, (P.p6 - 1i)) * P.p31));
  let v70 = b4[v69];
  let v71 = select(0f, v70, (v68 < P.p6));
  let v72 = ((v58 * 4i) + 3i);
  let v73 = (v59 + (min(v72, (P.p6 - 1i)) * P.p31));
  let v74 = b4[v73];
  let v75 = select(0f, v74, (v72 < P.p6));
  let v76 = vec4<f32>(v63, v67, v71, v75);
  let v77 = i32(u32((lid + 16i)) / u32(4i));
  let v78 = i32(u32((lid + 16i)) % u32(4i));
  let v79 = (v56 + (min((v7 + v77), (P.p3 - 1i)) * P.p30));
  let v80 = (v78 * 4i);
  let v81 = (v79 + (min(v80, (P.p6 - 1i)) * P.p31));
  let v82 = b4[v81];
  let v83 = select(0f, v82, (v80 < P.p6));
  let v84 = ((v78 * 4i) + 1i);
  let v85 = (v79 + (min(v84, (P.p6 - 1i)) * P.p31));
  let v86 = b4[v85];
  let v87 = select(0f, v86, (v84 < P.p6));
  let v88 = ((v78 * 4i) + 2i);
  let v89 = (v79 + (min(v88, (P.p6 - 1i)) * P.p31));
  let v90 = b4[v89];
  let v91 = select(0f, v90, (v88 < P.p6));
  let v92 = ((v78 * 4i) + 3i);
  let v93 = (v79 + (min(v92, (P.p6 - 1i)) * P.p31));
  let v94 = b4[v93];
  let v95 = select(0f, v94, (v92 < P.p6));
  let v96 = vec4<f32>(v83, v87, v91, v95);
  let v97 = ((i32(u32(lid) / u32(4i)) * 5i) + i32(u32(lid) % u32(4i)));
  s2[v97] = v76;
  let v98 = ((i32(u32((lid + 16i)) / u32(4i)) * 5i) + i32(u32((lid + 16i)) % u32(4i)));
  s2[v98] = v96;
  let v99 = (v7 + v0);
  let v100 = ((((v5 * P.p1) + v6) * P.p3) + min(v99, (P.p3 - 1i)));
  let v101 = (v100 * 2i);
  let v102 = b5[v101];
  let v103 = (v101 + 1i);
  let v104 = b5[v103];
  let v105 = (v0 + 4i);
  let v106 = (v7 + v105);
  let v107 = ((((v5 * P.p1) + v6) * P.p3) + min(v106, (P.p3 - 1i)));
  let v108 = (v107 * 2i);
  let v109 = b5[v108];
  let v110 = (v108 + 1i);
  let v111 = b5[v110];
  let v112 = i32(u32(v6) / u32(v10));
  let v113 = ((P.p17 + (v5 * P.p13)) + (v112 * P.p14));
  let v114 = ((P.p22 + (v5 * P.p18)) + (v112 * P.p19));
  let v115 = ((P.p27 + (v5 * P.p23)) + (v6 * P.p24));
  let v116 = i32(u32(lid) / u32(4i));
  let v117 = i32(u32(lid) % u32(4i));
  let v118 = (v114 + (min(v116, (P.p4 - 1i)) * P.p20));
  let v119 = (v117 * 4i);
  let v120 = (v118 + (min(v119, (P.p6 - 1i)) * P.p21));
  let v121 = b2[v120];
  let v122 = select(0f, v121, (v119 < P.p6));
  let v123 = ((v117 * 4i) + 1i);
  let v124 = (v118 + (min(v123, (P.p6 - 1i)) * P.p21));
  let v125 = b2[v124];
  let v126 = select(0f, v125, (v123 < P.p6));
  let v127 = ((v117 * 4i) + 2i);
  let v128 = (v118 + (min(v127, (P.p6 - 1i)) * P.p21));
  let v129 = b2[v128];
  let v130 = select(0f, v129, (v127 < P.p6));
  let v131 = ((v117 * 4i) + 3i);
  let v132 = (v118 + (min(v131, (P.p6 - 1i)) * P.p21));
  let v133 = b2[v132];
  let v134 = select(0f, v133, (v131 < P.p6));
  let v135 = vec4<f32>(v122, v126, v130, v134);
  let v136 = i32(u32((lid + 16i)) / u32(4i));
  let v137 = i32(u32((lid + 16i)) % u32(4i));
  let v138 = (v114 + (min(v136, (P.p4 - 1i)) * P.p20));
  let v139 = (v137 * 4i);
  let v140 = (v138 + (min(v139, (P.p6 - 1i)) * P.p21));
  let v141 = b2[v140];
  let v142 = select(0f, v141, (v139 < P.p6));
  let v143 = ((v137 * 4i) + 1i);
  let v144 = (v138 + (min(v143, (P.p6 - 1i)) * P.p21));
  let v145 = b2[v144];
  let v146 = select(0f, v145, (v143 < P.p6));
  let v147 = ((v137 * 4i) + 2i);
  let v148 = (v138 + (min(v147, (P.p6 - 1i)) * P.p21));
  let v149 = b2[v148];
  let v150 = select(0f, v149, (v147 < P.p6));
  let v151 = ((v137 * 4i) + 3i);
  let v152 = (v138 + (min(v151, (P.p6 - 1i)) * P.p21));
  let v153 = b2[v152];
  let v154 = select(0f, v153, (v151 < P.p6));
  let v155 = vec4<f32>(v142, v146, v150, v154);
  var v156: vec4<f32> = v135;
  var v157: vec4<f32> = v155;
  for (var v158: i32 = 0i; v158 < P.p4; v158 += 8i) {
    let v159 = ((i32(u32(lid) / u32(4i)) * 5i) + i32(u32(lid) % u32(4i)));
    s0[v159] = v156;
    let v160 = ((i32(u32((lid + 16i)) / u32(4i)) * 5i) + i32(u32((lid + 16i)) % u32(4i)));
    s0[v160] = v157;
    workgroupBarrier();
    let v161 = i32(u32(lid) / u32(4i));
    let v162 = i32(u32(lid) % u32(4i));
    let v163 = (v113 + (min((v158 + v161), (P.p4 - 1i)) * P.p15));
    let v164 = (v162 * 4i);
    let v165 = (v163 + (min(v164, (P.p5 - 1i)) * P.p16));
    let v166 = b1[v165];
    let v167 = select(0f, v166, (v164 < P.p5));
    let v168 = ((v162 * 4i) + 1i);
    let v169 = (v163 + (min(v168, (P.p5 - 1i)) * P.p16));
    let v170 = b1[v169];
    let v171 = select(0f, v170, (v168 < P.p5));
    let v172 = ((v162 * 4i) + 2i);
    let v173 = (v163 + (min(v172, (P.p5 - 1i)) * P.p16));
    let v174 = b1[v173];
    let v175 = select(0f, v174, (v172 < P.p5));
    let v176 = ((v162 * 4i) + 3i);
    let v177 = (v163 + (min(v176, (P.p5 - 1i)) * P.p16));
    let v178 = b1[v177];
    let v179 = select(0f, v178, (v176 < P.p5));
    let v180 = vec4<f32>(v167, v171, v175, v179);
    let v181 = i32(u32((lid + 16i)) / u32(4i));
    let v182 = i32(u32((lid + 16i)) % u32(4i));
    let v183 = (v113 + (min((v158 + v181), (P.p4 - 1i)) * P.p15));
    let v184 = (v182 * 4i);
    let v185 = (v183 + (min(v184, (P.p5 - 1i)) * P.p16));
    let v186 = b1[v185];
    let v187 = select(0f, v186, (v184 < P.p5));
    let v188 = ((v182 * 4i) + 1i);
    let v189 = (v183 + (min(v188, (P.p5 - 1i)) * P.p16));
    let v190 = b1[v189];
    let v191 = select(0f, v190, (v188 < P.p5));
    let v192 = ((v182 * 4i) + 2i);
    let v193 = (v183 + (min(v192, (P.p5 - 1i)) * P.p16));
    let v194 = b1[v193];
    let v195 = select(0f, v194, (v192 < P.p5));
    let v196 = ((v182 * 4i) + 3i);
    let v197 = (v183 + (min(v196, (P.p5 - 1i)) * P.p16));
    let v198 = b1[v197];
    let v199 = select(0f, v198, (v196 < P.p5));
    let v200 = vec4<f32>(v187, v191, v195, v199);
    var v201: f32 = 0f;
    var v202: f32 = 0f;
    var v203: f32 = 0f;
    var v204: f32 = 0f;
    let v205 = (v0 * 5i);
    let v206 = (v0 + 4i);
    let v207 = (v206 * 5i);
    let v208 = (v1 * 5i);
    let v209 = (v1 + 4i);
    let v210 = (v209 * 5i);
    for (var v211: i32 = 0i; v211 < 4i; v211 += 1i) {
      let v212 = s2[(v205 + v211)];
      let v213 = s2[(v207 + v211)];
      let v214 = s0[(v208 + v211)];
      let v215 = s0[(v210 + v211)];
      v201 = fma(v212.x, v214.x, v201);
      v202 = fma(v212.x, v215.x, v202);
      v203 = fma(v213.x, v214.x, v203);
      v204 = fma(v213.x, v215.x, v204);
      v201 = fma(v212.y, v214.y, v201);
      v202 = fma(v212.y, v215.y, v202);
      v203 = fma(v213.y, v214.y, v203);
      v204 = fma(v213.y, v215.y, v204);
      v201 = fma(v212.z, v214.z, v201);
      v202 = fma(v212.z, v215.z, v202);
      v203 = fma(v213.z, v214.z, v203);
      v204 = fma(v213.z, v215.z, v204);
      v201 = fma(v212.w, v214.w, v201);
      v202 = fma(v212.w, v215.w, v202);
      v203 = fma(v213.w, v214.w, v203);
      v204 = fma(v213.w, v215.w, v204);
    }
    workgroupBarrier();
    let v216 = ((i32(u32(lid) / u32(4i)) * 5i) + i32(u32(lid) % u32(4i)));
    s0[v216] = v180;
    let v217 = ((i32(u32((lid + 16i)) / u32(4i)) * 5i) + i32(u32((lid + 16i)) % u32(4i)));
    s0[v217] = v200;
    workgroupBarrier();
    var v218: f32 = 0f;
    var v219: f32 = 0f;
    var v220: f32 = 0f;
    var v221: f32 = 0f;
    let v222 = (v0 * 5i);
    let v223 = (v0 + 4i);
    let v224 = (v223 * 5i);
    let v225 = (v1 * 5i);
    let v226 = (v1 + 4i);
    let v227 = (v226 * 5i);
    for (var v228: i32 = 0i; v228 < 4i; v228 += 1i) {
      let v229 = s1[(v222 + v228)];
      let v230 = s1[(v224 + v228)];
      let v231 = s0[(v225 + v228)];
      let v232 = s0[(v227 + v228)];
      v218 = fma(v229.x, v231.x, v218);
      v219 = fma(v229.x, v232.x, v219);
      v220 = fma(v230.x, v231.x, v220);
      v221 = fma(v230.x, v232.x, v221);
      v218 = fma(v229.y, v231.y, v218);
      v219 = fma(v229.y, v232.y, v219);
      v220 = fma(v230.y, v231.y, v220);
      v221 = fma(v230.y, v232.y, v221);
      v218 = fma(v229.z, v231.z, v218);
      v219 = fma(v229.z, v232.z, v219);
      v220 = fma(v230.z, v231.z, v220);
      v221 = fma(v230.z, v232.z, v221);
      v218 = fma(v229.w, v231.w, v218);
      v219 = fma(v229.w, v232.w, v219);
      v220 = fma(v230.w, v231.w, v220);
      v221 = fma(v230.w, v232.w, v221);
    }
    let v233 = (v158 + 8i);
    let v234 = (v158 + v1);
    let v235 = (v234 < P.p4);
    let v236 = (v7 + v0);
    let v237 = (v115 + ((min(v236, (P.p3 - 1i)) * P.p25) + (min(v234, (P.p4 - 1i)) * P.p26)));
    let v238 = (b3[v237] != u32(0u));
    v218 = select(from_bits(0xff800000u), v218, (v235 & v238));
    let v239 = (v0 + 4i);
    let v240 = (v7 + v239);
    let v241 = (v115 + ((min(v240, (P.p3 - 1i)) * P.p25) + (min(v234, (P.p4 - 1i)) * P.p26)));
    let v242 = (b3[v241] != u32(0u));
    v220 = select(from_bits(0xff800000u), v220, (v235 & v242));
    let v243 = (v1 + 4i);
    let v244 = (v158 + v243);
    let v245 = (v244 < P.p4);
    let v246 = (v7 + v0);
    let v247 = (v115 + ((min(v246, (P.p3 - 1i)) * P.p25) + (min(v244, (P.p4 - 1i)) * P.p26)));
    let v248 = (b3[v247] != u32(0u));
    v219 = select(from_bits(0xff800000u), v219, (v245 & v248));
    let v249 = (v0 + 4i);
    let v250 = (v7 + v249);
    let v251 = (v115 + ((min(v250, (P.p3 - 1i)) * P.p25) + (min(v244, (P.p4 - 1i)) * P.p26)));
    let v252 = (b3[v251] != u32(0u));
    v221 = select(from_bits(0xff800000u), v221, (v245 & v252));
    let v253 = exp((v218 - v102));
    v201 = (v253 * (v201 - v104));
    v218 = v253;
    let v254 = exp((v219 - v102));
    v202 = (v254 * (v202 - v104));
    v219 = v254;
    let v255 = exp((v220 - v109));
    v203 = (v255 * (v203 - v111));
    v220 = v255;
    let v256 = exp((v221 - v109));
    v204 = (v256 * (v204 - v111));
    v221 = v256;
    let v257 = ((v0 * 12i) + v1);
    s3[v257 >> 2u][v257 & 3i] = v201;
    let v258 = (v1 + 4i);
    let v259 = ((v0 * 12i) + v258);
    s3[v259 >> 2u][v259 & 3i] = v202;
    let v260 = (v0 + 4i);
    let v261 = ((v260 * 12i) + v1);
    s3[v261 >> 2u][v261 & 3i] = v203;
    let v262 = (v0 + 4i);
    let v263 = (v1 + 4i);
    let v264 = ((v262 * 12i) + v263);
    s3[v264 >> 2u][v264 & 3i] = v204;
    let v265 = (v158 + 8i);
    let v266 = i32(u32(lid) / u32(4i));
    let v267 = i32(u32(lid) % u32(4i));
    let v268 = (v114 + (min((v265 + v266), (P.p4 - 1i)) * P.p20));
    let v269 = (v267 * 4i);
    let v270 = (v268 + (min(v269, (P.p6 - 1i)) * P.p21));
    let v271 = b2[v270];
    let v272 = select(0f, v271, (v269 < P.p6));
    let v273 = ((v267 * 4i) + 1i);
    let v274 = (v268 + (min(v273, (P.p6 - 1i)) * P.p21));
    let v275 = b2[v274];
    let v276 = select(0f, v275, (v273 < P.p6));
    let v277 = ((v267 * 4i) + 2i);
    let v278 = (v268 + (min(v277, (P.p6 - 1i)) * P.p21));
    let v279 = b2[v278];
    let v280 = select(0f, v279, (v277 < P.p6));
    let v281 = ((v267 * 4i) + 3i);
    let v282 = (v268 + (min(v281, (P.p6 - 1i)) * P.p21));
    let v283 = b2[v282];
    let v284 = select(0f, v283, (v281 < P.p6));
    let v285 = vec4<f32>(v272, v276, v280, v284);
    let v286 = i32(u32((lid + 16i)) / u32(4i));
    let v287 = i32(u32((lid + 16i)) % u32(4i));
    let v288 = (v114 + (min((v265 + v286), (P.p4 - 1i)) * P.p20));
    let v289 = (v287 * 4i);
    let v290 = (v288 + (min(v289, (P.p6 - 1i)) * P.p21));
    let v291 = b2[v290];
    let v292 = select(0f, v291, (v289 < P.p6));
    let v293 = ((v287 * 4i) + 1i);
    let v294 = (v288 + (min(v293, (P.p6 - 1i)) * P.p21));
    let v295 = b2[v294];
    let v296 = select(0f, v295, (v293 < P.p6));
    let v297 = ((v287 * 4i) + 2i);
    let v298 = (v288 + (min(v297, (P.p6 - 1i)) * P.p21));
    let v299 = b2[v298];
    let v300 = select(0f, v299, (v297 < P.p6));
    let v301 = ((v287 * 4i) + 3i);
    let v302 = (v288 + (min(v301, (P.p6 - 1i)) * P.p21));
    let v303 = b2[v302];
    let v304 = select(0f, v303, (v301 < P.p6));
    let v305 = vec4<f32>(v292, v296, v300, v304);
    v156 = v285;
    v157 = v305;
    workgroupBarrier();
    let v306 = (v0 * 3i);
    let v307 = (v0 + 4i);
    let v308 = (v307 * 3i);
    for (var v309: i32 = 0i; v309 < 2i; v309 += 1i) {
      let v310 = s3[(v306 + v309)];
      let v311 = s3[(v308 + v309)];
      let v312 = (((v309 * 4i) * 5i) + v1);
      let v313 = s0[v312];
      v8 = fma(vec4<f32>(v310.x), v313, v8);
      v9 = fma(vec4<f32>(v311.x), v313, v9);
      let v314 = ((((v309 * 4i) + 1i) * 5i) + v1);
      let v315 = s0[v314];
      v8 = fma(vec4<f32>(v310.y), v315, v8);
      v9 = fma(vec4<f32>(v311.y), v315, v9);
      let v316 = ((((v309 * 4i) + 2i) * 5i) + v1);
      let v317 = s0[v316];
      v8 = fma(vec4<f32>(v310.z), v317, v8);
      v9 = fma(vec4<f32>(v311.z), v317, v9);
      let v318 = ((((v309 * 4i) + 3i) * 5i) + v1);
      let v319 = s0[v318];
      v8 = fma(vec4<f32>(v310.w), v319, v8);
      v9 = fma(vec4<f32>(v311.w), v319, v9);
    }
    workgroupBarrier();
  }
  let v320 = (v7 + v0);
  if ((v320 < P.p3)) {
    let v321 = (((((v5 * P.p3) + v320) * P.p1) + v6) * P.p5);
    let v322 = (v8 * vec4<f32>(P.p7));
    let v323 = (v1 * 4i);
    let v324 = (v321 + v323);
    let v325 = v322.x;
    if ((v323 < P.p5)) {
      b6[v324] = v325;
    }
    let v326 = (v323 + 1i);
    let v327 = (v321 + v326);
    let v328 = v322.y;
    if ((v326 < P.p5)) {
      b6[v327] = v328;
    }
    let v329 = (v323 + 2i);
    let v330 = (v321 + v329);
    let v331 = v322.z;
    if ((v329 < P.p5)) {
      b6[v330] = v331;
    }
    let v332 = (v323 + 3i);
    let v333 = (v321 + v332);
    let v334 = v322.w;
    if ((v332 < P.p5)) {
      b6[v333] = v334;
    }
  }
  let v335 = (v0 + 4i);
  let v336 = (v7 + v335);
  if ((v336 < P.p3)) {
    let v337 = (((((v5 * P.p3) + v336) * P.p1) + v6) * P.p5);
    let v338 = (v9 * vec4<f32>(P.p7));
    let v339 = (v1 * 4i);
    let v340 = (v337 + v339);
    let v341 = v338.x;
    if ((v339 < P.p5)) {
      b6[v340] = v341;
    }
    let v342 = (v339 + 1i);
    let v343 = (v337 + v342);
    let v344 = v338.y;
    if ((v342 < P.p5)) {
      b6[v343] = v344;
    }
    let v345 = (v339 + 2i);
    let v346 = (v337 + v345);
    let v347 = v338.z;
    if ((v345 < P.p5)) {
      b6[v346] = v347;
    }
    let v348 = (v339 + 3i);
    let v349 = (v337 + v348);
    let v350 = v338.w;
    if ((v348 < P.p5)) {
      b6[v349] = v350;
    }
  }
}
