@group(0) @binding(0) var<storage, read> b0: array<f32>;
@group(0) @binding(1) var<storage, read_write> b1: array<f32>;
@group(0) @binding(2) var<storage, read_write> b2: array<f32>;
@group(0) @binding(3) var<storage, read_write> b3: array<f32>;
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
}
@group(0) @binding(4) var<uniform> P: Params;
var<workgroup> s0: array<f32, 64>;
fn from_bits(x: u32) -> f32 {
  return bitcast<f32>(x);
}
fn is_nan_f32(x: f32) -> bool {
  return (bitcast<u32>(x) & u32(0x7fffffffu)) > u32(0x7f800000u);
}
fn max_nan_f32(a: f32, b: f32) -> f32 {
  return select(select(max(a, b), b, is_nan_f32(b)), a, is_nan_f32(a));
}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let gid = i32(wg.y * 32768u + wg.x);
  let lid = i32(local);
  if ((gid < P.p8)) {
    if ((gid < P.p6)) {
      let v0 = i32(u32(lid) % u32(16i));
      let v1 = i32(u32(lid) / u32(16i));
      let v2 = ((gid * 4i) + v1);
      let v3 = (v2 < P.p0);
      let v4 = min(v2, (P.p0 - 1i));
      var v5: f32 = from_bits(0xff800000u);
      let v6 = (v4 * P.p1);
      for (var v7: i32 = v0; v7 < P.p1; v7 += 16i) {
        let v8 = (v6 + v7);
        let v9 = b0[v8];
        v5 = max_nan_f32(v5, v9);
      }
      workgroupBarrier();
      s0[lid] = v5;
      workgroupBarrier();
      if ((v0 < 8i)) {
        let v10 = (lid + 8i);
        let v11 = s0[v10];
        v5 = max_nan_f32(v5, v11);
        s0[lid] = v5;
      }
      workgroupBarrier();
      if ((v0 < 4i)) {
        let v12 = (lid + 4i);
        let v13 = s0[v12];
        v5 = max_nan_f32(v5, v13);
        s0[lid] = v5;
      }
      workgroupBarrier();
      if ((v0 < 2i)) {
        let v14 = (lid + 2i);
        let v15 = s0[v14];
        v5 = max_nan_f32(v5, v15);
        s0[lid] = v5;
      }
      workgroupBarrier();
      if ((v0 < 1i)) {
        let v16 = (lid + 1i);
        let v17 = s0[v16];
        v5 = max_nan_f32(v5, v17);
        s0[lid] = v5;
      }
      workgroupBarrier();
      let v18 = (i32(u32(lid) / u32(16i)) * 16i);
      let v19 = s0[v18];
      var v20: f32 = 0f;
      let v21 = (v4 * P.p1);
      for (var v22: i32 = 0i; v22 < P.p1; v22 += 512i) {
        var v23: f32 = 0f;
        let v24 = min(P.p1, (v22 + 512i));
        let v25 = (v22 + v0);
        for (var v26: i32 = v25; v26 < v24; v26 += 16i) {
          let v27 = (v21 + v26);
          let v28 = b0[v27];
          let v29 = (v28 - v19);
          let v30 = exp(v29);
          v23 = (v23 + v30);
        }
        v20 = (v20 + v23);
      }
      workgroupBarrier();
      s0[lid] = v20;
      workgroupBarrier();
      if ((v0 < 8i)) {
        let v31 = (lid + 8i);
        let v32 = s0[v31];
        v20 = (v20 + v32);
        s0[lid] = v20;
      }
      workgroupBarrier();
      if ((v0 < 4i)) {
        let v33 = (lid + 4i);
        let v34 = s0[v33];
        v20 = (v20 + v34);
        s0[lid] = v20;
      }
      workgroupBarrier();
      if ((v0 < 2i)) {
        let v35 = (lid + 2i);
        let v36 = s0[v35];
        v20 = (v20 + v36);
        s0[lid] = v20;
      }
      workgroupBarrier();
      if ((v0 < 1i)) {
        let v37 = (lid + 1i);
        let v38 = s0[v37];
        v20 = (v20 + v38);
        s0[lid] = v20;
      }
      workgroupBarrier();
      let v39 = (i32(u32(lid) / u32(16i)) * 16i);
      let v40 = s0[v39];
      let v41 = (v4 * P.p1);
      for (var v42: i32 = v0; v42 < P.p1; v42 += 16i) {
        let v43 = (v41 + v42);
        let v44 = b0[v43];
        let v45 = (v44 - v19);
        let v46 = exp(v45);
        let v47 = (v46 / v40);
        if (v3) {
          b1[v43] = v47;
        }
      }
    } else {
      if ((gid < P.p7)) {
        let v48 = i32(u32(lid) % u32(16i));
        let v49 = i32(u32(lid) / u32(16i));
        let v50 = (((gid - P.p6) * 4i) + v49);
        let v51 = (v50 < P.p2);
        let v52 = min(v50, (P.p2 - 1i));
        var v53: f32 = from_bits(0xff800000u);
        let v54 = (v52 * P.p3);
        for (var v55: i32 = v48; v55 < P.p3; v55 += 16i) {
          let v56 = (v54 + v55);
          let v57 = b0[v56];
          v53 = max_nan_f32(v53, v57);
        }
        workgroupBarrier();
        s0[lid] = v53;
        workgroupBarrier();
        if ((v48 < 8i)) {
          let v58 = (lid + 8i);
          let v59 = s0[v58];
          v53 = max_nan_f32(v53, v59);
          s0[lid] = v53;
        }
        workgroupBarrier();
        if ((v48 < 4i)) {
          let v60 = (lid + 4i);
          let v61 = s0[v60];
          v53 = max_nan_f32(v53, v61);
          s0[lid] = v53;
        }
        workgroupBarrier();
        if ((v48 < 2i)) {
          let v62 = (lid + 2i);
          let v63 = s0[v62];
          v53 = max_nan_f32(v53, v63);
          s0[lid] = v53;
        }
        workgroupBarrier();
        if ((v48 < 1i)) {
          let v64 = (lid + 1i);
          let v65 = s0[v64];
          v53 = max_nan_f32(v53, v65);
          s0[lid] = v53;
        }
        workgroupBarrier();
        let v66 = (i32(u32(lid) / u32(16i)) * 16i);
        let v67 = s0[v66];
        var v68: f32 = 0f;
        let v69 = (v52 * P.p3);
        for (var v70: i32 = 0i; v70 < P.p3; v70 += 512i) {
          var v71: f32 = 0f;
          let v72 = min(P.p3, (v70 + 512i));
          let v73 = (v70 + v48);
          for (var v74: i32 = v73; v74 < v72; v74 += 16i) {
            let v75 = (v69 + v74);
            let v76 = b0[v75];
            let v77 = (v76 - v67);
            let v78 = exp(v77);
            v71 = (v71 + v78);
          }
          v68 = (v68 + v71);
        }
        workgroupBarrier();
        s0[lid] = v68;
        workgroupBarrier();
        if ((v48 < 8i)) {
          let v79 = (lid + 8i);
          let v80 = s0[v79];
          v68 = (v68 + v80);
          s0[lid] = v68;
        }
        workgroupBarrier();
        if ((v48 < 4i)) {
          let v81 = (lid + 4i);
          let v82 = s0[v81];
          v68 = (v68 + v82);
          s0[lid] = v68;
        }
        workgroupBarrier();
        if ((v48 < 2i)) {
          let v83 = (lid + 2i);
          let v84 = s0[v83];
          v68 = (v68 + v84);
          s0[lid] = v68;
        }
        workgroupBarrier();
        if ((v48 < 1i)) {
          let v85 = (lid + 1i);
          let v86 = s0[v85];
          v68 = (v68 + v86);
          s0[lid] = v68;
        }
        workgroupBarrier();
        let v87 = (i32(u32(lid) / u32(16i)) * 16i);
        let v88 = s0[v87];
        let v89 = (v52 * P.p3);
        for (var v90: i32 = v48; v90 < P.p3; v90 += 16i) {
          let v91 = (v89 + v90);
          let v92 = b0[v91];
          let v93 = (v92 - v67);
          let v94 = exp(v93);
          let v95 = (v94 / v88);
          if (v51) {
            b2[v91] = v95;
          }
        }
      } else {
        let v96 = i32(u32(lid) % u32(16i));
        let v97 = i32(u32(lid) / u32(16i));
        let v98 = (((gid - P.p7) * 4i) + v97);
        let v99 = (v98 < P.p4);
        let v100 = min(v98, (P.p4 - 1i));
        var v101: f32 = from_bits(0xff800000u);
        let v102 = (v100 * P.p5);
        for (var v103: i32 = v96; v103 < P.p5; v103 += 16i) {
          let v104 = (v102 + v103);
          let v105 = b0[v104];
          v101 = max_nan_f32(v101, v105);
        }
        workgroupBarrier();
        s0[lid] = v101;
        workgroupBarrier();
        if ((v96 < 8i)) {
          let v106 = (lid + 8i);
          let v107 = s0[v106];
          v101 = max_nan_f32(v101, v107);
          s0[lid] = v101;
        }
        workgroupBarrier();
        if ((v96 < 4i)) {
          let v108 = (lid + 4i);
          let v109 = s0[v108];
          v101 = max_nan_f32(v101, v109);
          s0[lid] = v101;
        }
        workgroupBarrier();
        if ((v96 < 2i)) {
          let v110 = (lid + 2i);
          let v111 = s0[v110];
          v101 = max_nan_f32(v101, v111);
          s0[lid] = v101;
        }
        workgroupBarrier();
        if ((v96 < 1i)) {
          let v112 = (lid + 1i);
          let v113 = s0[v112];
          v101 = max_nan_f32(v101, v113);
          s0[lid] = v101;
        }
        workgroupBarrier();
        let v114 = (i32(u32(lid) / u32(16i)) * 16i);
        let v115 = s0[v114];
        var v116: f32 = 0f;
        let v117 = (v100 * P.p5);
        for (var v118: i32 = 0i; v118 < P.p5; v118 += 512i) {
          var v119: f32 = 0f;
          let v120 = min(P.p5, (v118 + 512i));
          let v121 = (v118 + v96);
          for (var v122: i32 = v121; v122 < v120; v122 += 16i) {
            let v123 = (v117 + v122);
            let v124 = b0[v123];
            let v125 = (v124 - v115);
            let v126 = exp(v125);
            v119 = (v119 + v126);
          }
          v116 = (v116 + v119);
        }
        workgroupBarrier();
        s0[lid] = v116;
        workgroupBarrier();
        if ((v96 < 8i)) {
          let v127 = (lid + 8i);
          let v128 = s0[v127];
          v116 = (v116 + v128);
          s0[lid] = v116;
        }
        workgroupBarrier();
        if ((v96 < 4i)) {
          let v129 = (lid + 4i);
          let v130 = s0[v129];
          v116 = (v116 + v130);
          s0[lid] = v116;
        }
        workgroupBarrier();
        if ((v96 < 2i)) {
          let v131 = (lid + 2i);
          let v132 = s0[v131];
          v116 = (v116 + v132);
          s0[lid] = v116;
        }
        workgroupBarrier();
        if ((v96 < 1i)) {
          let v133 = (lid + 1i);
          let v134 = s0[v133];
          v116 = (v116 + v134);
          s0[lid] = v116;
        }
        workgroupBarrier();
        let v135 = (i32(u32(lid) / u32(16i)) * 16i);
        let v136 = s0[v135];
        let v137 = (v100 * P.p5);
        for (var v138: i32 = v96; v138 < P.p5; v138 += 16i) {
          let v139 = (v137 + v138);
          let v140 = b0[v139];
          let v141 = (v140 - v115);
          let v142 = exp(v141);
          let v143 = (v142 / v136);
          if (v99) {
            b3[v139] = v143;
          }
        }
      }
    }
  }
}
