@group(0) @binding(0) var<storage, read> b0: array<f32>;
@group(0) @binding(1) var<storage, read> b1: array<f32>;
@group(0) @binding(2) var<storage, read> b2: array<f32>;
@group(0) @binding(3) var<storage, read> b3: array<f32>;
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
  p8: u32,
  p8h: u32,
  p9: u32,
  p9h: u32,
  p10: f32,
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
  p33: i32,
  p34: i32,
  p35: i32,
}
@group(0) @binding(7) var<uniform> P: Params;
var<workgroup> s0: array<vec4<f32>, 40>;
var<workgroup> s1: array<vec4<f32>, 40>;
var<workgroup> s2: array<vec4<f32>, 40>;
var<workgroup> s3: array<vec4<f32>, 24>;
fn mul_hi(a: u32, b: u32) -> u32 {
  let t = (a & 0xffffu) * (b & 0xffffu);
  let u = (a >> 16u) * (b & 0xffffu) + (t >> 16u);
  let v = (a & 0xffffu) * (b >> 16u) + (u & 0xffffu);
  return (a >> 16u) * (b >> 16u) + (u >> 16u) + (v >> 16u);
}
fn philox(ctr: vec4<u32>, key: vec2<u32>) -> vec4<u32> {
  var c = ctr;
  var k = key;
  for (var i = 0; i < 10; i += 1) {
    c = vec4<u32>(mul_hi(0xcd9e8d57u, c.z) ^ c.y ^ k.x, 0xcd9e8d57u * c.z,
                  mul_hi(0xd2511f53u, c.x) ^ c.w ^ k.y, 0xd2511f53u * c.x);
    k += vec2<u32>(0x9e3779b9u, 0xbb67ae85u);
  }
  return c;
}
fn from_bits(x: u32) -> f32 {
  return bitcast<f32>(x);
}
@compute @workgroup_size(16)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let gid = i32(wg.y * 32768u + wg.x);
  let lid = i32(local);
  let v0 = ((i32(u32(lid) / u32(8i)) * 2i) + i32(u32(lid) % u32(2i)));
  let v1 = i32(u32(i32(u32(lid) % u32(8i))) / u32(2i));
  let v2 = i32(u32((P.p4 + 7i)) / u32(8i));
  let v3 = (i32(u32(gid) % u32(v2)) * 8i);
  let v4 = i32(u32(gid) / u32(v2));
  let v5 = i32(u32(v4) % u32(P.p1));
  let v6 = i32(u32(v4) / u32(P.p1));
  var v7: f32 = 0f;
  var v8: f32 = 0f;
  var v9: f32 = 0f;
  var v10: f32 = 0f;
  for (var v11: i32 = 0i; v11 < P.p0; v11 += 1i) {
    for (var v12: i32 = 0i; v12 < P.p3; v12 += 8i) {
      let v13 = i32(u32(P.p1) / u32(P.p2));
      let v14 = i32(u32(v5) / u32(v13));
      let v15 = ((P.p15 + (v11 * P.p11)) + (v5 * P.p12));
      let v16 = ((P.p20 + (v11 * P.p16)) + (v14 * P.p17));
      let v17 = i32(u32(lid) / u32(4i));
      let v18 = i32(u32(lid) % u32(4i));
      let v19 = (v15 + (min((v12 + v17), (P.p3 - 1i)) * P.p13));
      let v20 = (v18 * 4i);
      let v21 = (v19 + (min(v20, (P.p5 - 1i)) * P.p14));
      let v22 = b0[v21];
      let v23 = select(0f, v22, (v20 < P.p5));
      let v24 = ((v18 * 4i) + 1i);
      let v25 = (v19 + (min(v24, (P.p5 - 1i)) * P.p14));
      let v26 = b0[v25];
      let v27 = select(0f, v26, (v24 < P.p5));
      let v28 = ((v18 * 4i) + 2i);
      let v29 = (v19 + (min(v28, (P.p5 - 1i)) * P.p14));
      let v30 = b0[v29];
      let v31 = select(0f, v30, (v28 < P.p5));
      let v32 = ((v18 * 4i) + 3i);
      let v33 = (v19 + (min(v32, (P.p5 - 1i)) * P.p14));
      let v34 = b0[v33];
      let v35 = select(0f, v34, (v32 < P.p5));
      let v36 = vec4<f32>(v23, v27, v31, v35);
      let v37 = i32(u32((lid + 16i)) / u32(4i));
      let v38 = i32(u32((lid + 16i)) % u32(4i));
      let v39 = (v15 + (min((v12 + v37), (P.p3 - 1i)) * P.p13));
      let v40 = (v38 * 4i);
      let v41 = (v39 + (min(v40, (P.p5 - 1i)) * P.p14));
      let v42 = b0[v41];
      let v43 = select(0f, v42, (v40 < P.p5));
      let v44 = ((v38 * 4i) + 1i);
      let v45 = (v39 + (min(v44, (P.p5 - 1i)) * P.p14));
      let v46 = b0[v45];
      let v47 = select(0f, v46, (v44 < P.p5));
      let v48 = ((v38 * 4i) + 2i);
      let v49 = (v39 + (min(v48, (P.p5 - 1i)) * P.p14));
      let v50 = b0[v49];
      let v51 = select(0f, v50, (v48 < P.p5));
      let v52 = ((v38 * 4i) + 3i);
      let v53 = (v39 + (min(v52, (P.p5 - 1i)) * P.p14));
      let v54 = b0[v53];
      let v55 = select(0f, v54, (v52 < P.p5));
      let v56 = vec4<f32>(v43, v47, v51, v55);
      let v57 = (v36 * vec4<f32>(P.p7));
      let v58 = ((i32(u32(lid) / u32(4i)) * 5i) + i32(u32(lid) % u32(4i)));
      s1[v58] = v57;
      let v59 = (v56 * vec4<f32>(P.p7));
      let v60 = ((i32(u32((lid + 16i)) / u32(4i)) * 5i) + i32(u32((lid + 16i)) % u32(4i)));
      s1[v60] = v59;
      let v61 = ((P.p35 + (v11 * P.p31)) + (v5 * P.p32));
      let v62 = ((P.p25 + (v11 * P.p21)) + (v14 * P.p22));
      let v63 = i32(u32(lid) / u32(4i));
      let v64 = i32(u32(lid) % u32(4i));
      let v65 = (v61 + (min((v12 + v63), (P.p3 - 1i)) * P.p33));
      let v66 = (v64 * 4i);
      let v67 = (v65 + (min(v66, (P.p6 - 1i)) * P.p34));
      let v68 = b4[v67];
      let v69 = select(0f, v68, (v66 < P.p6));
      let v70 = ((v64 * 4i) + 1i);
      let v71 = (v65 + (min(v70, (P.p6 - 1i)) * P.p34));
      let v72 = b4[v71];
      let v73 = select(0f, v72, (v70 < P.p6));
      let v74 = ((v64 * 4i) + 2i);
      let v75 = (v65 + (min(v74, (P.p6 - 1i)) * P.p34));
      let v76 = b4[v75];
      let v77 = select(0f, v76, (v74 < P.p6));
      let v78 = ((v64 * 4i) + 3i);
      let v79 = (v65 + (min(v78, (P.p6 - 1i)) * P.p34));
      let v80 = b4[v79];
      let v81 = select(0f, v80, (v78 < P.p6));
      let v82 = vec4<f32>(v69, v73, v77, v81);
      let v83 = i32(u32((lid + 16i)) / u32(4i));
      let v84 = i32(u32((lid + 16i)) % u32(4i));
      let v85 = (v61 + (min((v12 + v83), (P.p3 - 1i)) * P.p33));
      let v86 = (v84 * 4i);
      let v87 = (v85 + (min(v86, (P.p6 - 1i)) * P.p34));
      let v88 = b4[v87];
      let v89 = select(0f, v88, (v86 < P.p6));
      let v90 = ((v84 * 4i) + 1i);
      let v91 = (v85 + (min(v90, (P.p6 - 1i)) * P.p34));
      let v92 = b4[v91];
      let v93 = select(0f, v92, (v90 < P.p6));
      let v94 = ((v84 * 4i) + 2i);
      let v95 = (v85 + (min(v94, (P.p6 - 1i)) * P.p34));
      let v96 = b4[v95];
      let v97 = select(0f, v96, (v94 < P.p6));
      let v98 = ((v84 * 4i) + 3i);
      let v99 = (v85 + (min(v98, (P.p6 - 1i)) * P.p34));
      let v100 = b4[v99];
      let v101 = select(0f, v100, (v98 < P.p6));
      let v102 = vec4<f32>(v89, v93, v97, v101);
      let v103 = ((i32(u32(lid) / u32(4i)) * 5i) + i32(u32(lid) % u32(4i)));
      s2[v103] = v82;
      let v104 = ((i32(u32((lid + 16i)) / u32(4i)) * 5i) + i32(u32((lid + 16i)) % u32(4i)));
      s2[v104] = v102;
      let v105 = i32(u32(lid) / u32(4i));
      let v106 = i32(u32(lid) % u32(4i));
      let v107 = (v62 + (min((v3 + v105), (P.p4 - 1i)) * P.p23));
      let v108 = (v106 * 4i);
      let v109 = (v107 + (min(v108, (P.p6 - 1i)) * P.p24));
      let v110 = b2[v109];
      let v111 = select(0f, v110, (v108 < P.p6));
      let v112 = ((v106 * 4i) + 1i);
      let v113 = (v107 + (min(v112, (P.p6 - 1i)) * P.p24));
      let v114 = b2[v113];
      let v115 = select(0f, v114, (v112 < P.p6));
      let v116 = ((v106 * 4i) + 2i);
      let v117 = (v107 + (min(v116, (P.p6 - 1i)) * P.p24));
      let v118 = b2[v117];
      let v119 = select(0f, v118, (v116 < P.p6));
      let v120 = ((v106 * 4i) + 3i);
      let v121 = (v107 + (min(v120, (P.p6 - 1i)) * P.p24));
      let v122 = b2[v121];
      let v123 = select(0f, v122, (v120 < P.p6));
      let v124 = vec4<f32>(v111, v115, v119, v123);
      let v125 = i32(u32((lid + 16i)) / u32(4i));
      let v126 = i32(u32((lid + 16i)) % u32(4i));
      let v127 = (v62 + (min((v3 + v125), (P.p4 - 1i)) * P.p23));
      let v128 = (v126 * 4i);
      let v129 = (v127 + (min(v128, (P.p6 - 1i)) * P.p24));
      let v130 = b2[v129];
      let v131 = select(0f, v130, (v128 < P.p6));
      let v132 = ((v126 * 4i) + 1i);
      let v133 = (v127 + (min(v132, (P.p6 - 1i)) * P.p24));
      let v134 = b2[v133];
      let v135 = select(0f, v134, (v132 < P.p6));
      let v136 = ((v126 * 4i) + 2i);
      let v137 = (v127 + (min(v136, (P.p6 - 1i)) * P.p24));
      let v138 = b2[v137];
      let v139 = select(0f, v138, (v136 < P.p6));
      let v140 = ((v126 * 4i) + 3i);
      let v141 = (v127 + (min(v140, (P.p6 - 1i)) * P.p24));
      let v142 = b2[v141];
      let v143 = select(0f, v142, (v140 < P.p6));
      let v144 = vec4<f32>(v131, v135, v139, v143);
      let v145 = ((i32(u32(lid) / u32(4i)) * 5i) + i32(u32(lid) % u32(4i)));
      s0[v145] = v124;
      let v146 = ((i32(u32((lid + 16i)) / u32(4i)) * 5i) + i32(u32((lid + 16i)) % u32(4i)));
      s0[v146] = v144;
      let v147 = i32(u32(lid) / u32(4i));
      let v148 = i32(u32(lid) % u32(4i));
      let v149 = (v16 + (min((v3 + v147), (P.p4 - 1i)) * P.p18));
      let v150 = (v148 * 4i);
      let v151 = (v149 + (min(v150, (P.p5 - 1i)) * P.p19));
      let v152 = b1[v151];
      let v153 = select(0f, v152, (v150 < P.p5));
      let v154 = ((v148 * 4i) + 1i);
      let v155 = (v149 + (min(v154, (P.p5 - 1i)) * P.p19));
      let v156 = b1[v155];
      let v157 = select(0f, v156, (v154 < P.p5));
      let v158 = ((v148 * 4i) + 2i);
      let v159 = (v149 + (min(v158, (P.p5 - 1i)) * P.p19));
      let v160 = b1[v159];
      let v161 = select(0f, v160, (v158 < P.p5));
      let v162 = ((v148 * 4i) + 3i);
      let v163 = (v149 + (min(v162, (P.p5 - 1i)) * P.p19));
      let v164 = b1[v163];
      let v165 = select(0f, v164, (v162 < P.p5));
      let v166 = vec4<f32>(v153, v157, v161, v165);
      let v167 = i32(u32((lid + 16i)) / u32(4i));
      let v168 = i32(u32((lid + 16i)) % u32(4i));
      let v169 = (v16 + (min((v3 + v167), (P.p4 - 1i)) * P.p18));
      let v170 = (v168 * 4i);
      let v171 = (v169 + (min(v170, (P.p5 - 1i)) * P.p19));
      let v172 = b1[v171];
      let v173 = select(0f, v172, (v170 < P.p5));
      let v174 = ((v168 * 4i) + 1i);
      let v175 = (v169 + (min(v174, (P.p5 - 1i)) * P.p19));
      let v176 = b1[v175];
      let v177 = select(0f, v176, (v174 < P.p5));
      let v178 = ((v168 * 4i) + 2i);
      let v179 = (v169 + (min(v178, (P.p5 - 1i)) * P.p19));
      let v180 = b1[v179];
      let v181 = select(0f, v180, (v178 < P.p5));
      let v182 = ((v168 * 4i) + 3i);
      let v183 = (v169 + (min(v182, (P.p5 - 1i)) * P.p19));
      let v184 = b1[v183];
      let v185 = select(0f, v184, (v182 < P.p5));
      let v186 = vec4<f32>(v173, v177, v181, v185);
      let v187 = i32(u32(lid) / u32(2i));
      let v188 = i32(u32(lid) % u32(2i));
      let v189 = ((((v11 * P.p1) + v5) * P.p3) + (v12 + v187));
      let v190 = i32(u32((P.p4 + 3i)) / u32(4i));
      let v191 = bitcast<u32>(v189);
      let v192 = bitcast<u32>(v190);
      let v193 = (i32(u32(v3) / u32(4i)) + v188);
      let v194 = bitcast<u32>(v193);
      let v195 = (v191 & 65535u);
      let v196 = (v192 & 65535u);
      let v197 = (v195 * v196);
      let v198 = (v191 & 65535u);
      let v199 = (v192 >> u32(16u));
      let v200 = (v198 * v199);
      let v201 = (v191 >> u32(16u));
      let v202 = (v192 & 65535u);
      let v203 = (v201 * v202);
      let v204 = (v197 >> u32(16u));
      let v205 = (v200 & 65535u);
      let v206 = (v203 & 65535u);
      let v207 = (v205 + v206);
      let v208 = (v204 + v207);
      let v209 = (v191 >> u32(16u));
      let v210 = (v192 >> u32(16u));
      let v211 = (v209 * v210);
      let v212 = (v200 >> u32(16u));
      let v213 = (v203 >> u32(16u));
      let v214 = (v212 + v213);
      let v215 = (v208 >> u32(16u));
      let v216 = (v214 + v215);
      let v217 = (v211 + v216);
      let v218 = (v191 * v192);
      let v219 = (v218 + v194);
      let v220 = select(0u, 1u, (v219 < v218));
      let v221 = (v217 + v220);
      let v222 = philox(vec4<u32>(v219, v221, P.p9, P.p9h), vec2<u32>(P.p8, P.p8h));
      let v223 = (1f - P.p10);
      let v224 = (1f / v223);
      let v225 = (f32((v222.x >> u32(8u))) * 5.9604645e-08f);
      let v226 = select(v224, 0f, (v225 < P.p10));
      let v227 = (f32((v222.y >> u32(8u))) * 5.9604645e-08f);
      let v228 = select(v224, 0f, (v227 < P.p10));
      let v229 = (f32((v222.z >> u32(8u))) * 5.9604645e-08f);
      let v230 = select(v224, 0f, (v229 < P.p10));
      let v231 = (f32((v222.w >> u32(8u))) * 5.9604645e-08f);
      let v232 = select(v224, 0f, (v231 < P.p10));
      let v233 = ((v187 * 3i) + v188);
      s3[v233] = vec4<f32>(v226, v228, v230, v232);
      workgroupBarrier();
      var v234: f32 = 0f;
      var v235: f32 = 0f;
      var v236: f32 = 0f;
      var v237: f32 = 0f;
      let v238 = (v0 * 5i);
      let v239 = (v0 + 4i);
      let v240 = (v239 * 5i);
      let v241 = (v1 * 5i);
      let v242 = (v1 + 4i);
      let v243 = (v242 * 5i);
      for (var v244: i32 = 0i; v244 < 4i; v244 += 1i) {
        let v245 = s2[(v238 + v244)];
        let v246 = s2[(v240 + v244)];
        let v247 = s0[(v241 + v244)];
        let v248 = s0[(v243 + v244)];
        v234 = fma(v245.x, v247.x, v234);
        v235 = fma(v245.x, v248.x, v235);
        v236 = fma(v246.x, v247.x, v236);
        v237 = fma(v246.x, v248.x, v237);
        v234 = fma(v245.y, v247.y, v234);
        v235 = fma(v245.y, v248.y, v235);
        v236 = fma(v246.y, v247.y, v236);
        v237 = fma(v246.y, v248.y, v237);
        v234 = fma(v245.z, v247.z, v234);
        v235 = fma(v245.z, v248.z, v235);
        v236 = fma(v246.z, v247.z, v236);
        v237 = fma(v246.z, v248.z, v237);
        v234 = fma(v245.w, v247.w, v234);
        v235 = fma(v245.w, v248.w, v235);
        v236 = fma(v246.w, v247.w, v236);
        v237 = fma(v246.w, v248.w, v237);
      }
      workgroupBarrier();
      let v249 = ((i32(u32(lid) / u32(4i)) * 5i) + i32(u32(lid) % u32(4i)));
      s0[v249] = v166;
      let v250 = ((i32(u32((lid + 16i)) / u32(4i)) * 5i) + i32(u32((lid + 16i)) % u32(4i)));
      s0[v250] = v186;
      workgroupBarrier();
      var v251: f32 = 0f;
      var v252: f32 = 0f;
      var v253: f32 = 0f;
      var v254: f32 = 0f;
      let v255 = (v0 * 5i);
      let v256 = (v0 + 4i);
      let v257 = (v256 * 5i);
      let v258 = (v1 * 5i);
      let v259 = (v1 + 4i);
      let v260 = (v259 * 5i);
      for (var v261: i32 = 0i; v261 < 4i; v261 += 1i) {
        let v262 = s1[(v255 + v261)];
        let v263 = s1[(v257 + v261)];
        let v264 = s0[(v258 + v261)];
        let v265 = s0[(v260 + v261)];
        v251 = fma(v262.x, v264.x, v251);
        v252 = fma(v262.x, v265.x, v252);
        v253 = fma(v263.x, v264.x, v253);
        v254 = fma(v263.x, v265.x, v254);
        v251 = fma(v262.y, v264.y, v251);
        v252 = fma(v262.y, v265.y, v252);
        v253 = fma(v263.y, v264.y, v253);
        v254 = fma(v263.y, v265.y, v254);
        v251 = fma(v262.z, v264.z, v251);
        v252 = fma(v262.z, v265.z, v252);
        v253 = fma(v263.z, v264.z, v253);
        v254 = fma(v263.z, v265.z, v254);
        v251 = fma(v262.w, v264.w, v251);
        v252 = fma(v262.w, v265.w, v252);
        v253 = fma(v263.w, v264.w, v253);
        v254 = fma(v263.w, v265.w, v254);
      }
      let v266 = ((P.p30 + (v11 * P.p26)) + (v5 * P.p27));
      let v267 = (v3 + 8i);
      let v268 = (v3 + v1);
      let v269 = (v268 < P.p4);
      let v270 = (v12 + v0);
      let v271 = (v266 + ((min(v270, (P.p3 - 1i)) * P.p28) + (min(v268, (P.p4 - 1i)) * P.p29)));
      let v272 = b3[v271];
      v251 = select(from_bits(0xff800000u), (v251 + v272), v269);
      let v273 = (v0 + 4i);
      let v274 = (v12 + v273);
      let v275 = (v266 + ((min(v274, (P.p3 - 1i)) * P.p28) + (min(v268, (P.p4 - 1i)) * P.p29)));
      let v276 = b3[v275];
      v253 = select(from_bits(0xff800000u), (v253 + v276), v269);
      let v277 = (v1 + 4i);
      let v278 = (v3 + v277);
      let v279 = (v278 < P.p4);
      let v280 = (v12 + v0);
      let v281 = (v266 + ((min(v280, (P.p3 - 1i)) * P.p28) + (min(v278, (P.p4 - 1i)) * P.p29)));
      let v282 = b3[v281];
      v252 = select(from_bits(0xff800000u), (v252 + v282), v279);
      let v283 = (v0 + 4i);
      let v284 = (v12 + v283);
      let v285 = (v266 + ((min(v284, (P.p3 - 1i)) * P.p28) + (min(v278, (P.p4 - 1i)) * P.p29)));
      let v286 = b3[v285];
      v254 = select(from_bits(0xff800000u), (v254 + v286), v279);
      let v287 = (v12 + v0);
      let v288 = ((((v11 * P.p1) + v5) * P.p3) + min(v287, (P.p3 - 1i)));
      let v289 = (v288 * 2i);
      let v290 = b5[v289];
      let v291 = (v289 + 1i);
      let v292 = b5[v291];
      let v293 = (v0 + 4i);
      let v294 = (v12 + v293);
      let v295 = ((((v11 * P.p1) + v5) * P.p3) + min(v294, (P.p3 - 1i)));
      let v296 = (v295 * 2i);
      let v297 = b5[v296];
      let v298 = (v296 + 1i);
      let v299 = b5[v298];
      let v300 = exp((v251 - v290));
      let v301 = ((v0 * 12i) + v1);
      let v302 = (v234 * s3[v301 >> 2u][v301 & 3i]);
      v234 = (v300 * (v302 - v292));
      let v303 = ((v0 * 12i) + v1);
      let v304 = (v300 * s3[v303 >> 2u][v303 & 3i]);
      v251 = v304;
      let v305 = exp((v252 - v290));
      let v306 = (v1 + 4i);
      let v307 = ((v0 * 12i) + v306);
      let v308 = (v235 * s3[v307 >> 2u][v307 & 3i]);
      v235 = (v305 * (v308 - v292));
      let v309 = (v1 + 4i);
      let v310 = ((v0 * 12i) + v309);
      let v311 = (v305 * s3[v310 >> 2u][v310 & 3i]);
      v252 = v311;
      let v312 = exp((v253 - v297));
      let v313 = (v0 + 4i);
      let v314 = ((v313 * 12i) + v1);
      let v315 = (v236 * s3[v314 >> 2u][v314 & 3i]);
      v236 = (v312 * (v315 - v299));
      let v316 = (v0 + 4i);
      let v317 = ((v316 * 12i) + v1);
      let v318 = (v312 * s3[v317 >> 2u][v317 & 3i]);
      v253 = v318;
      let v319 = exp((v254 - v297));
      let v320 = (v0 + 4i);
      let v321 = (v1 + 4i);
      let v322 = ((v320 * 12i) + v321);
      let v323 = (v237 * s3[v322 >> 2u][v322 & 3i]);
      v237 = (v319 * (v323 - v299));
      let v324 = (v0 + 4i);
      let v325 = (v1 + 4i);
      let v326 = ((v324 * 12i) + v325);
      let v327 = (v319 * s3[v326 >> 2u][v326 & 3i]);
      v254 = v327;
      let v328 = (v12 + v0);
      let v329 = (v328 < P.p3);
      v7 = (v7 + select(0f, v234, v329));
      v8 = (v8 + select(0f, v235, v329));
      let v330 = (v0 + 4i);
      let v331 = (v12 + v330);
      let v332 = (v331 < P.p3);
      v9 = (v9 + select(0f, v236, v332));
      v10 = (v10 + select(0f, v237, v332));
      workgroupBarrier();
    }
  }
  let v333 = ((v0 * 12i) + v1);
  s3[v333 >> 2u][v333 & 3i] = v7;
  let v334 = (v1 + 4i);
  let v335 = ((v0 * 12i) + v334);
  s3[v335 >> 2u][v335 & 3i] = v8;
  let v336 = (v0 + 4i);
  let v337 = ((v336 * 12i) + v1);
  s3[v337 >> 2u][v337 & 3i] = v9;
  let v338 = (v0 + 4i);
  let v339 = (v1 + 4i);
  let v340 = ((v338 * 12i) + v339);
  s3[v340 >> 2u][v340 & 3i] = v10;
  workgroupBarrier();
  for (var v341: i32 = lid; v341 < 8i; v341 += 16i) {
    let v342 = (v3 + v341);
    var v343: f32 = 0f;
    for (var v344: i32 = 0i; v344 < 8i; v344 += 1i) {
      let v345 = (v341 + (v344 * 12i));
      v343 = (v343 + s3[v345 >> 2u][v345 & 3i]);
    }
    let v346 = ((v5 * P.p4) + v342);
    if ((v342 < P.p4)) {
      b6[v346] = v343;
    }
  }
}
