@group(0) @binding(0) var<storage, read> b0: array<f32>;
@group(0) @binding(1) var<storage, read> b1: array<f32>;
@group(0) @binding(2) var<storage, read> b2: array<f32>;
@group(0) @binding(3) var<storage, read> b3: array<f32>;
@group(0) @binding(4) var<storage, read> b4: array<f32>;
@group(0) @binding(5) var<storage, read_write> b5: array<f32>;
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
  let v2 = (P.p0 * P.p2);
  let v3 = i32(u32(gid) / u32(v2));
  let v4 = i32(u32(gid) % u32(v2));
  let v5 = i32(u32(v4) / u32(P.p2));
  let v6 = i32(u32(v4) % u32(P.p2));
  let v7 = (v3 * 8i);
  var v8: vec4<f32> = vec4<f32>(0f);
  var v9: vec4<f32> = vec4<f32>(0f);
  var v10: vec4<f32> = vec4<f32>(0f);
  var v11: vec4<f32> = vec4<f32>(0f);
  let v12 = i32(u32(P.p1) / u32(P.p2));
  let v13 = ((P.p17 + (v5 * P.p13)) + (v6 * P.p14));
  let v14 = i32(u32(lid) / u32(4i));
  let v15 = i32(u32(lid) % u32(4i));
  let v16 = (v13 + (min((v7 + v14), (P.p4 - 1i)) * P.p15));
  let v17 = (v15 * 4i);
  let v18 = (v16 + (min(v17, (P.p5 - 1i)) * P.p16));
  let v19 = b1[v18];
  let v20 = select(0f, v19, (v17 < P.p5));
  let v21 = ((v15 * 4i) + 1i);
  let v22 = (v16 + (min(v21, (P.p5 - 1i)) * P.p16));
  let v23 = b1[v22];
  let v24 = select(0f, v23, (v21 < P.p5));
  let v25 = ((v15 * 4i) + 2i);
  let v26 = (v16 + (min(v25, (P.p5 - 1i)) * P.p16));
  let v27 = b1[v26];
  let v28 = select(0f, v27, (v25 < P.p5));
  let v29 = ((v15 * 4i) + 3i);
  let v30 = (v16 + (min(v29, (P.p5 - 1i)) * P.p16));
  let v31 = b1[v30];
  let v32 = select(0f, v31, (v29 < P.p5));
  let v33 = vec4<f32>(v20, v24, v28, v32);
  let v34 = i32(u32((lid + 16i)) / u32(4i));
  let v35 = i32(u32((lid + 16i)) % u32(4i));
  let v36 = (v13 + (min((v7 + v34), (P.p4 - 1i)) * P.p15));
  let v37 = (v35 * 4i);
  let v38 = (v36 + (min(v37, (P.p5 - 1i)) * P.p16));
  let v39 = b1[v38];
  let v40 = select(0f, v39, (v37 < P.p5));
  let v41 = ((v35 * 4i) + 1i);
  let v42 = (v36 + (min(v41, (P.p5 - 1i)) * P.p16));
  let v43 = b1[v42];
  let v44 = select(0f, v43, (v41 < P.p5));
  let v45 = ((v35 * 4i) + 2i);
  let v46 = (v36 + (min(v45, (P.p5 - 1i)) * P.p16));
  let v47 = b1[v46];
  let v48 = select(0f, v47, (v45 < P.p5));
  let v49 = ((v35 * 4i) + 3i);
  let v50 = (v36 + (min(v49, (P.p5 - 1i)) * P.p16));
  let v51 = b1[v50];
  let v52 = select(0f, v51, (v49 < P.p5));
  let v53 = vec4<f32>(v40, v44, v48, v52);
  let v54 = ((i32(u32(lid) / u32(4i)) * 5i) + i32(u32(lid) % u32(4i)));
  s1[v54] = v33;
  let v55 = ((i32(u32((lid + 16i)) / u32(4i)) * 5i) + i32(u32((lid + 16i)) % u32(4i)));
  s1[v55] = v53;
  let v56 = ((P.p22 + (v5 * P.p18)) + (v6 * P.p19));
  let v57 = i32(u32(lid) / u32(4i));
  let v58 = i32(u32(lid) % u32(4i));
  let v59 = (v56 + (min((v7 + v57), (P.p4 - 1i)) * P.p20));
  let v60 = (v58 * 4i);
  let v61 = (v59 + (min(v60, (P.p6 - 1i)) * P.p21));
  let v62 = b2[v61];
  let v63 = select(0f, v62, (v60 < P.p6));
  let v64 = ((v58 * 4i) + 1i);
  let v65 = (v59 + (min(v64, (P.p6 - 1i)) * P.p21));
  let v66 = b2[v65];
  let v67 = select(0f, v66, (v64 < P.p6));
  let v68 = ((v58 * 4i) + 2i);
  let v69 = (v59 + (min(v68, (P.p6 - 1i)) * P.p21));
  let v70 = b2[v69];
  let v71 = select(0f, v70, (v68 < P.p6));
  let v72 = ((v58 * 4i) + 3i);
  let v73 = (v59 + (min(v72, (P.p6 - 1i)) * P.p21));
  let v74 = b2[v73];
  let v75 = select(0f, v74, (v72 < P.p6));
  let v76 = vec4<f32>(v63, v67, v71, v75);
  let v77 = i32(u32((lid + 16i)) / u32(4i));
  let v78 = i32(u32((lid + 16i)) % u32(4i));
  let v79 = (v56 + (min((v7 + v77), (P.p4 - 1i)) * P.p20));
  let v80 = (v78 * 4i);
  let v81 = (v79 + (min(v80, (P.p6 - 1i)) * P.p21));
  let v82 = b2[v81];
  let v83 = select(0f, v82, (v80 < P.p6));
  let v84 = ((v78 * 4i) + 1i);
  let v85 = (v79 + (min(v84, (P.p6 - 1i)) * P.p21));
  let v86 = b2[v85];
  let v87 = select(0f, v86, (v84 < P.p6));
  let v88 = ((v78 * 4i) + 2i);
  let v89 = (v79 + (min(v88, (P.p6 - 1i)) * P.p21));
  let v90 = b2[v89];
  let v91 = select(0f, v90, (v88 < P.p6));
  let v92 = ((v78 * 4i) + 3i);
  let v93 = (v79 + (min(v92, (P.p6 - 1i)) * P.p21));
  let v94 = b2[v93];
  let v95 = select(0f, v94, (v92 < P.p6));
  let v96 = vec4<f32>(v83, v87, v91, v95);
  let v97 = ((i32(u32(lid) / u32(4i)) * 5i) + i32(u32(lid) % u32(4i)));
  s2[v97] = v76;
  let v98 = ((i32(u32((lid + 16i)) / u32(4i)) * 5i) + i32(u32((lid + 16i)) % u32(4i)));
  s2[v98] = v96;
  let v99 = (v6 * v12);
  let v100 = (v99 + v12);
  for (var v101: i32 = v99; v101 < v100; v101 += 1i) {
    let v102 = ((P.p12 + (v5 * P.p8)) + (v101 * P.p9));
    let v103 = ((P.p27 + (v5 * P.p23)) + (v101 * P.p24));
    let v104 = (i32(u32(v7) / u32(8i)) * 8i);
    let v105 = i32(u32(lid) / u32(4i));
    let v106 = i32(u32(lid) % u32(4i));
    let v107 = (v103 + (min((v104 + v105), (P.p3 - 1i)) * P.p25));
    let v108 = (v106 * 4i);
    let v109 = (v107 + (min(v108, (P.p6 - 1i)) * P.p26));
    let v110 = b3[v109];
    let v111 = select(0f, v110, (v108 < P.p6));
    let v112 = ((v106 * 4i) + 1i);
    let v113 = (v107 + (min(v112, (P.p6 - 1i)) * P.p26));
    let v114 = b3[v113];
    let v115 = select(0f, v114, (v112 < P.p6));
    let v116 = ((v106 * 4i) + 2i);
    let v117 = (v107 + (min(v116, (P.p6 - 1i)) * P.p26));
    let v118 = b3[v117];
    let v119 = select(0f, v118, (v116 < P.p6));
    let v120 = ((v106 * 4i) + 3i);
    let v121 = (v107 + (min(v120, (P.p6 - 1i)) * P.p26));
    let v122 = b3[v121];
    let v123 = select(0f, v122, (v120 < P.p6));
    let v124 = vec4<f32>(v111, v115, v119, v123);
    let v125 = i32(u32((lid + 16i)) / u32(4i));
    let v126 = i32(u32((lid + 16i)) % u32(4i));
    let v127 = (v103 + (min((v104 + v125), (P.p3 - 1i)) * P.p25));
    let v128 = (v126 * 4i);
    let v129 = (v127 + (min(v128, (P.p6 - 1i)) * P.p26));
    let v130 = b3[v129];
    let v131 = select(0f, v130, (v128 < P.p6));
    let v132 = ((v126 * 4i) + 1i);
    let v133 = (v127 + (min(v132, (P.p6 - 1i)) * P.p26));
    let v134 = b3[v133];
    let v135 = select(0f, v134, (v132 < P.p6));
    let v136 = ((v126 * 4i) + 2i);
    let v137 = (v127 + (min(v136, (P.p6 - 1i)) * P.p26));
    let v138 = b3[v137];
    let v139 = select(0f, v138, (v136 < P.p6));
    let v140 = ((v126 * 4i) + 3i);
    let v141 = (v127 + (min(v140, (P.p6 - 1i)) * P.p26));
    let v142 = b3[v141];
    let v143 = select(0f, v142, (v140 < P.p6));
    let v144 = vec4<f32>(v131, v135, v139, v143);
    var v145: vec4<f32> = v124;
    var v146: vec4<f32> = v144;
    for (var v147: i32 = v104; v147 < P.p3; v147 += 8i) {
      let v148 = ((i32(u32(lid) / u32(4i)) * 5i) + i32(u32(lid) % u32(4i)));
      s0[v148] = v145;
      let v149 = ((i32(u32((lid + 16i)) / u32(4i)) * 5i) + i32(u32((lid + 16i)) % u32(4i)));
      s0[v149] = v146;
      workgroupBarrier();
      let v150 = i32(u32(lid) / u32(4i));
      let v151 = i32(u32(lid) % u32(4i));
      let v152 = (v102 + (min((v147 + v150), (P.p3 - 1i)) * P.p10));
      let v153 = (v151 * 4i);
      let v154 = (v152 + (min(v153, (P.p5 - 1i)) * P.p11));
      let v155 = b0[v154];
      let v156 = select(0f, v155, (v153 < P.p5));
      let v157 = ((v151 * 4i) + 1i);
      let v158 = (v152 + (min(v157, (P.p5 - 1i)) * P.p11));
      let v159 = b0[v158];
      let v160 = select(0f, v159, (v157 < P.p5));
      let v161 = ((v151 * 4i) + 2i);
      let v162 = (v152 + (min(v161, (P.p5 - 1i)) * P.p11));
      let v163 = b0[v162];
      let v164 = select(0f, v163, (v161 < P.p5));
      let v165 = ((v151 * 4i) + 3i);
      let v166 = (v152 + (min(v165, (P.p5 - 1i)) * P.p11));
      let v167 = b0[v166];
      let v168 = select(0f, v167, (v165 < P.p5));
      let v169 = vec4<f32>(v156, v160, v164, v168);
      let v170 = i32(u32((lid + 16i)) / u32(4i));
      let v171 = i32(u32((lid + 16i)) % u32(4i));
      let v172 = (v102 + (min((v147 + v170), (P.p3 - 1i)) * P.p10));
      let v173 = (v171 * 4i);
      let v174 = (v172 + (min(v173, (P.p5 - 1i)) * P.p11));
      let v175 = b0[v174];
      let v176 = select(0f, v175, (v173 < P.p5));
      let v177 = ((v171 * 4i) + 1i);
      let v178 = (v172 + (min(v177, (P.p5 - 1i)) * P.p11));
      let v179 = b0[v178];
      let v180 = select(0f, v179, (v177 < P.p5));
      let v181 = ((v171 * 4i) + 2i);
      let v182 = (v172 + (min(v181, (P.p5 - 1i)) * P.p11));
      let v183 = b0[v182];
      let v184 = select(0f, v183, (v181 < P.p5));
      let v185 = ((v171 * 4i) + 3i);
      let v186 = (v172 + (min(v185, (P.p5 - 1i)) * P.p11));
      let v187 = b0[v186];
      let v188 = select(0f, v187, (v185 < P.p5));
      let v189 = vec4<f32>(v176, v180, v184, v188);
      var v190: f32 = 0f;
      var v191: f32 = 0f;
      var v192: f32 = 0f;
      var v193: f32 = 0f;
      let v194 = (v0 * 5i);
      let v195 = (v0 + 4i);
      let v196 = (v195 * 5i);
      let v197 = (v1 * 5i);
      let v198 = (v1 + 4i);
      let v199 = (v198 * 5i);
      for (var v200: i32 = 0i; v200 < 4i; v200 += 1i) {
        let v201 = s2[(v194 + v200)];
        let v202 = s2[(v196 + v200)];
        let v203 = s0[(v197 + v200)];
        let v204 = s0[(v199 + v200)];
        v190 = fma(v201.x, v203.x, v190);
        v191 = fma(v201.x, v204.x, v191);
        v192 = fma(v202.x, v203.x, v192);
        v193 = fma(v202.x, v204.x, v193);
        v190 = fma(v201.y, v203.y, v190);
        v191 = fma(v201.y, v204.y, v191);
        v192 = fma(v202.y, v203.y, v192);
        v193 = fma(v202.y, v204.y, v193);
        v190 = fma(v201.z, v203.z, v190);
        v191 = fma(v201.z, v204.z, v191);
        v192 = fma(v202.z, v203.z, v192);
        v193 = fma(v202.z, v204.z, v193);
        v190 = fma(v201.w, v203.w, v190);
        v191 = fma(v201.w, v204.w, v191);
        v192 = fma(v202.w, v203.w, v192);
        v193 = fma(v202.w, v204.w, v193);
      }
      workgroupBarrier();
      let v205 = (v169 * vec4<f32>(P.p7));
      let v206 = ((i32(u32(lid) / u32(4i)) * 5i) + i32(u32(lid) % u32(4i)));
      s0[v206] = v205;
      let v207 = (v189 * vec4<f32>(P.p7));
      let v208 = ((i32(u32((lid + 16i)) / u32(4i)) * 5i) + i32(u32((lid + 16i)) % u32(4i)));
      s0[v208] = v207;
      workgroupBarrier();
      var v209: f32 = 0f;
      var v210: f32 = 0f;
      var v211: f32 = 0f;
      var v212: f32 = 0f;
      let v213 = (v0 * 5i);
      let v214 = (v0 + 4i);
      let v215 = (v214 * 5i);
      let v216 = (v1 * 5i);
      let v217 = (v1 + 4i);
      let v218 = (v217 * 5i);
      for (var v219: i32 = 0i; v219 < 4i; v219 += 1i) {
        let v220 = s1[(v213 + v219)];
        let v221 = s1[(v215 + v219)];
        let v222 = s0[(v216 + v219)];
        let v223 = s0[(v218 + v219)];
        v209 = fma(v220.x, v222.x, v209);
        v210 = fma(v220.x, v223.x, v210);
        v211 = fma(v221.x, v222.x, v211);
        v212 = fma(v221.x, v223.x, v212);
        v209 = fma(v220.y, v222.y, v209);
        v210 = fma(v220.y, v223.y, v210);
        v211 = fma(v221.y, v222.y, v211);
        v212 = fma(v221.y, v223.y, v212);
        v209 = fma(v220.z, v222.z, v209);
        v210 = fma(v220.z, v223.z, v210);
        v211 = fma(v221.z, v222.z, v211);
        v212 = fma(v221.z, v223.z, v212);
        v209 = fma(v220.w, v222.w, v209);
        v210 = fma(v220.w, v223.w, v210);
        v211 = fma(v221.w, v222.w, v211);
        v212 = fma(v221.w, v223.w, v212);
      }
      let v224 = (v147 + 8i);
      if (((P.p3 < v224) | (v147 < ((v7 + 8i) - 1i)))) {
        let v225 = (v147 + v1);
        let v226 = (v225 < P.p3);
        let v227 = (v7 + v0);
        v209 = select(from_bits(0xff800000u), v209, (v226 & (v227 <= v225)));
        let v228 = (v0 + 4i);
        let v229 = (v7 + v228);
        v211 = select(from_bits(0xff800000u), v211, (v226 & (v229 <= v225)));
        let v230 = (v1 + 4i);
        let v231 = (v147 + v230);
        let v232 = (v231 < P.p3);
        let v233 = (v7 + v0);
        v210 = select(from_bits(0xff800000u), v210, (v232 & (v233 <= v231)));
        let v234 = (v0 + 4i);
        let v235 = (v7 + v234);
        v212 = select(from_bits(0xff800000u), v212, (v232 & (v235 <= v231)));
      }
      let v236 = ((((v5 * P.p1) + v101) * P.p3) + min((v147 + v1), (P.p3 - 1i)));
      let v237 = (v236 * 2i);
      let v238 = b4[v237];
      let v239 = (v237 + 1i);
      let v240 = b4[v239];
      let v241 = (v1 + 4i);
      let v242 = ((((v5 * P.p1) + v101) * P.p3) + min((v147 + v241), (P.p3 - 1i)));
      let v243 = (v242 * 2i);
      let v244 = b4[v243];
      let v245 = (v243 + 1i);
      let v246 = b4[v245];
      let v247 = exp((v209 - v238));
      v190 = (v247 * (v190 - v240));
      v209 = v247;
      let v248 = exp((v210 - v244));
      v191 = (v248 * (v191 - v246));
      v210 = v248;
      let v249 = exp((v211 - v238));
      v192 = (v249 * (v192 - v240));
      v211 = v249;
      let v250 = exp((v212 - v244));
      v193 = (v250 * (v193 - v246));
      v212 = v250;
      let v251 = ((v0 * 12i) + v1);
      s3[v251 >> 2u][v251 & 3i] = v190;
      let v252 = (v1 + 4i);
      let v253 = ((v0 * 12i) + v252);
      s3[v253 >> 2u][v253 & 3i] = v191;
      let v254 = (v0 + 4i);
      let v255 = ((v254 * 12i) + v1);
      s3[v255 >> 2u][v255 & 3i] = v192;
      let v256 = (v0 + 4i);
      let v257 = (v1 + 4i);
      let v258 = ((v256 * 12i) + v257);
      s3[v258 >> 2u][v258 & 3i] = v193;
      let v259 = i32(u32(lid) / u32(4i));
      let v260 = i32(u32(lid) % u32(4i));
      let v261 = (v103 + (min((v147 + v259), (P.p3 - 1i)) * P.p25));
      let v262 = (v260 * 4i);
      let v263 = (v261 + (min(v262, (P.p6 - 1i)) * P.p26));
      let v264 = b3[v263];
      let v265 = select(0f, v264, (v262 < P.p6));
      let v266 = ((v260 * 4i) + 1i);
      let v267 = (v261 + (min(v266, (P.p6 - 1i)) * P.p26));
      let v268 = b3[v267];
      let v269 = select(0f, v268, (v266 < P.p6));
      let v270 = ((v260 * 4i) + 2i);
      let v271 = (v261 + (min(v270, (P.p6 - 1i)) * P.p26));
      let v272 = b3[v271];
      let v273 = select(0f, v272, (v270 < P.p6));
      let v274 = ((v260 * 4i) + 3i);
      let v275 = (v261 + (min(v274, (P.p6 - 1i)) * P.p26));
      let v276 = b3[v275];
      let v277 = select(0f, v276, (v274 < P.p6));
      let v278 = vec4<f32>(v265, v269, v273, v277);
      let v279 = i32(u32((lid + 16i)) / u32(4i));
      let v280 = i32(u32((lid + 16i)) % u32(4i));
      let v281 = (v103 + (min((v147 + v279), (P.p3 - 1i)) * P.p25));
      let v282 = (v280 * 4i);
      let v283 = (v281 + (min(v282, (P.p6 - 1i)) * P.p26));
      let v284 = b3[v283];
      let v285 = select(0f, v284, (v282 < P.p6));
      let v286 = ((v280 * 4i) + 1i);
      let v287 = (v281 + (min(v286, (P.p6 - 1i)) * P.p26));
      let v288 = b3[v287];
      let v289 = select(0f, v288, (v286 < P.p6));
      let v290 = ((v280 * 4i) + 2i);
      let v291 = (v281 + (min(v290, (P.p6 - 1i)) * P.p26));
      let v292 = b3[v291];
      let v293 = select(0f, v292, (v290 < P.p6));
      let v294 = ((v280 * 4i) + 3i);
      let v295 = (v281 + (min(v294, (P.p6 - 1i)) * P.p26));
      let v296 = b3[v295];
      let v297 = select(0f, v296, (v294 < P.p6));
      let v298 = vec4<f32>(v285, v289, v293, v297);
      workgroupBarrier();
      let v299 = (v0 * 3i);
      let v300 = (v0 + 4i);
      let v301 = (v300 * 3i);
      for (var v302: i32 = 0i; v302 < 2i; v302 += 1i) {
        let v303 = s3[(v299 + v302)];
        let v304 = s3[(v301 + v302)];
        let v305 = (((v302 * 4i) * 5i) + v1);
        let v306 = s0[v305];
        v8 = fma(vec4<f32>(v303.x), v306, v8);
        v9 = fma(vec4<f32>(v304.x), v306, v9);
        let v307 = ((((v302 * 4i) + 1i) * 5i) + v1);
        let v308 = s0[v307];
        v8 = fma(vec4<f32>(v303.y), v308, v8);
        v9 = fma(vec4<f32>(v304.y), v308, v9);
        let v309 = ((((v302 * 4i) + 2i) * 5i) + v1);
        let v310 = s0[v309];
        v8 = fma(vec4<f32>(v303.z), v310, v8);
        v9 = fma(vec4<f32>(v304.z), v310, v9);
        let v311 = ((((v302 * 4i) + 3i) * 5i) + v1);
        let v312 = s0[v311];
        v8 = fma(vec4<f32>(v303.w), v312, v8);
        v9 = fma(vec4<f32>(v304.w), v312, v9);
      }
      workgroupBarrier();
      let v313 = ((i32(u32(lid) / u32(4i)) * 5i) + i32(u32(lid) % u32(4i)));
      s0[v313] = v278;
      let v314 = ((i32(u32((lid + 16i)) / u32(4i)) * 5i) + i32(u32((lid + 16i)) % u32(4i)));
      s0[v314] = v298;
      let v315 = (v147 + 8i);
      let v316 = i32(u32(lid) / u32(4i));
      let v317 = i32(u32(lid) % u32(4i));
      let v318 = (v103 + (min((v315 + v316), (P.p3 - 1i)) * P.p25));
      let v319 = (v317 * 4i);
      let v320 = (v318 + (min(v319, (P.p6 - 1i)) * P.p26));
      let v321 = b3[v320];
      let v322 = select(0f, v321, (v319 < P.p6));
      let v323 = ((v317 * 4i) + 1i);
      let v324 = (v318 + (min(v323, (P.p6 - 1i)) * P.p26));
      let v325 = b3[v324];
      let v326 = select(0f, v325, (v323 < P.p6));
      let v327 = ((v317 * 4i) + 2i);
      let v328 = (v318 + (min(v327, (P.p6 - 1i)) * P.p26));
      let v329 = b3[v328];
      let v330 = select(0f, v329, (v327 < P.p6));
      let v331 = ((v317 * 4i) + 3i);
      let v332 = (v318 + (min(v331, (P.p6 - 1i)) * P.p26));
      let v333 = b3[v332];
      let v334 = select(0f, v333, (v331 < P.p6));
      let v335 = vec4<f32>(v322, v326, v330, v334);
      let v336 = i32(u32((lid + 16i)) / u32(4i));
      let v337 = i32(u32((lid + 16i)) % u32(4i));
      let v338 = (v103 + (min((v315 + v336), (P.p3 - 1i)) * P.p25));
      let v339 = (v337 * 4i);
      let v340 = (v338 + (min(v339, (P.p6 - 1i)) * P.p26));
      let v341 = b3[v340];
      let v342 = select(0f, v341, (v339 < P.p6));
      let v343 = ((v337 * 4i) + 1i);
      let v344 = (v338 + (min(v343, (P.p6 - 1i)) * P.p26));
      let v345 = b3[v344];
      let v346 = select(0f, v345, (v343 < P.p6));
      let v347 = ((v337 * 4i) + 2i);
      let v348 = (v338 + (min(v347, (P.p6 - 1i)) * P.p26));
      let v349 = b3[v348];
      let v350 = select(0f, v349, (v347 < P.p6));
      let v351 = ((v337 * 4i) + 3i);
      let v352 = (v338 + (min(v351, (P.p6 - 1i)) * P.p26));
      let v353 = b3[v352];
      let v354 = select(0f, v353, (v351 < P.p6));
      let v355 = vec4<f32>(v342, v346, v350, v354);
      v145 = v335;
      v146 = v355;
      let v356 = ((v0 * 12i) + v1);
      s3[v356 >> 2u][v356 & 3i] = v209;
      let v357 = (v1 + 4i);
      let v358 = ((v0 * 12i) + v357);
      s3[v358 >> 2u][v358 & 3i] = v210;
      let v359 = (v0 + 4i);
      let v360 = ((v359 * 12i) + v1);
      s3[v360 >> 2u][v360 & 3i] = v211;
      let v361 = (v0 + 4i);
      let v362 = (v1 + 4i);
      let v363 = ((v361 * 12i) + v362);
      s3[v363 >> 2u][v363 & 3i] = v212;
      workgroupBarrier();
      let v364 = (v0 * 3i);
      let v365 = (v0 + 4i);
      let v366 = (v365 * 3i);
      for (var v367: i32 = 0i; v367 < 2i; v367 += 1i) {
        let v368 = s3[(v364 + v367)];
        let v369 = s3[(v366 + v367)];
        let v370 = (((v367 * 4i) * 5i) + v1);
        let v371 = s0[v370];
        v10 = fma(vec4<f32>(v368.x), v371, v10);
        v11 = fma(vec4<f32>(v369.x), v371, v11);
        let v372 = ((((v367 * 4i) + 1i) * 5i) + v1);
        let v373 = s0[v372];
        v10 = fma(vec4<f32>(v368.y), v373, v10);
        v11 = fma(vec4<f32>(v369.y), v373, v11);
        let v374 = ((((v367 * 4i) + 2i) * 5i) + v1);
        let v375 = s0[v374];
        v10 = fma(vec4<f32>(v368.z), v375, v10);
        v11 = fma(vec4<f32>(v369.z), v375, v11);
        let v376 = ((((v367 * 4i) + 3i) * 5i) + v1);
        let v377 = s0[v376];
        v10 = fma(vec4<f32>(v368.w), v377, v10);
        v11 = fma(vec4<f32>(v369.w), v377, v11);
      }
      workgroupBarrier();
    }
  }
  let v378 = (v7 + v0);
  if ((v378 < P.p4)) {
    let v379 = (((((v5 * P.p4) + v378) * P.p2) + v6) * P.p5);
    let v380 = (v8 * vec4<f32>(1f));
    let v381 = (v1 * 4i);
    let v382 = (v379 + v381);
    let v383 = v380.x;
    if ((v381 < P.p5)) {
      b5[v382] = v383;
    }
    let v384 = (v381 + 1i);
    let v385 = (v379 + v384);
    let v386 = v380.y;
    if ((v384 < P.p5)) {
      b5[v385] = v386;
    }
    let v387 = (v381 + 2i);
    let v388 = (v379 + v387);
    let v389 = v380.z;
    if ((v387 < P.p5)) {
      b5[v388] = v389;
    }
    let v390 = (v381 + 3i);
    let v391 = (v379 + v390);
    let v392 = v380.w;
    if ((v390 < P.p5)) {
      b5[v391] = v392;
    }
  }
  let v393 = (v7 + v0);
  if ((v393 < P.p4)) {
    let v394 = (((((v5 * P.p4) + v393) * P.p2) + v6) * P.p6);
    let v395 = (v10 * vec4<f32>(1f));
    let v396 = (v1 * 4i);
    let v397 = (v394 + v396);
    let v398 = v395.x;
    if ((v396 < P.p6)) {
      b6[v397] = v398;
    }
    let v399 = (v396 + 1i);
    let v400 = (v394 + v399);
    let v401 = v395.y;
    if ((v399 < P.p6)) {
      b6[v400] = v401;
    }
    let v402 = (v396 + 2i);
    let v403 = (v394 + v402);
    let v404 = v395.z;
    if ((v402 < P.p6)) {
      b6[v403] = v404;
    }
    let v405 = (v396 + 3i);
    let v406 = (v394 + v405);
    let v407 = v395.w;
    if ((v405 < P.p6)) {
      b6[v406] = v407;
    }
  }
  let v408 = (v0 + 4i);
  let v409 = (v7 + v408);
  if ((v409 < P.p4)) {
    let v410 = (((((v5 * P.p4) + v409) * P.p2) + v6) * P.p5);
    let v411 = (v9 * vec4<f32>(1f));
    let v412 = (v1 * 4i);
    let v413 = (v410 + v412);
    let v414 = v411.x;
    if ((v412 < P.p5)) {
      b5[v413] = v414;
    }
    let v415 = (v412 + 1i);
    let v416 = (v410 + v415);
    let v417 = v411.y;
    if ((v415 < P.p5)) {
      b5[v416] = v417;
    }
    let v418 = (v412 + 2i);
    let v419 = (v410 + v418);
    let v420 = v411.z;
    if ((v418 < P.p5)) {
      b5[v419] = v420;
    }
    let v421 = (v412 + 3i);
    let v422 = (v410 + v421);
    let v423 = v411.w;
    if ((v421 < P.p5)) {
      b5[v422] = v423;
    }
  }
  let v424 = (v0 + 4i);
  let v425 = (v7 + v424);
  if ((v425 < P.p4)) {
    let v426 = (((((v5 * P.p4) + v425) * P.p2) + v6) * P.p6);
    let v427 = (v11 * vec4<f32>(1f));
    let v428 = (v1 * 4i);
    let v429 = (v426 + v428);
    let v430 = v427.x;
    if ((v428 < P.p6)) {
      b6[v429] = v430;
    }
    let v431 = (v428 + 1i);
    let v432 = (v426 + v431);
    let v433 = v427.y;
    if ((v431 < P.p6)) {
      b6[v432] = v433;
    }
    let v434 = (v428 + 2i);
    let v435 = (v426 + v434);
    let v436 = v427.z;
    if ((v434 < P.p6)) {
      b6[v435] = v436;
    }
    let v437 = (v428 + 3i);
    let v438 = (v426 + v437);
    let v439 = v427.w;
    if ((v437 < P.p6)) {
      b6[v438] = v439;
    }
  }
}
