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
      var v6: f32 = 0f;
      let v7 = (v4 * P.p1);
      for (var v8: i32 = v0; v8 < P.p1; v8 += 16i) {
        let v9 = (v7 + v8);
        let v10 = b0[v9];
        let v11 = max_nan_f32(v5, v10);
        let v12 = select(v11, 0f, (v11 == from_bits(0xff800000u)));
        let v13 = (v5 - v12);
        let v14 = exp(v13);
        let v15 = (v6 * v14);
        let v16 = (v10 - v12);
        let v17 = exp(v16);
        let v18 = (v15 + v17);
        v6 = v18;
        v5 = v11;
      }
      var v19: f32 = v5;
      workgroupBarrier();
      s0[lid] = v5;
      workgroupBarrier();
      if ((v0 < 8i)) {
        let v20 = (lid + 8i);
        let v21 = s0[v20];
        v5 = max_nan_f32(v5, v21);
        s0[lid] = v5;
      }
      workgroupBarrier();
      if ((v0 < 4i)) {
        let v22 = (lid + 4i);
        let v23 = s0[v22];
        v5 = max_nan_f32(v5, v23);
        s0[lid] = v5;
      }
      workgroupBarrier();
      if ((v0 < 2i)) {
        let v24 = (lid + 2i);
        let v25 = s0[v24];
        v5 = max_nan_f32(v5, v25);
        s0[lid] = v5;
      }
      workgroupBarrier();
      if ((v0 < 1i)) {
        let v26 = (lid + 1i);
        let v27 = s0[v26];
        v5 = max_nan_f32(v5, v27);
        s0[lid] = v5;
      }
      workgroupBarrier();
      let v28 = (i32(u32(lid) / u32(16i)) * 16i);
      let v29 = s0[v28];
      let v30 = (v19 - v29);
      let v31 = exp(v30);
      let v32 = (v6 * v31);
      v6 = v32;
      workgroupBarrier();
      s0[lid] = v6;
      workgroupBarrier();
      if ((v0 < 8i)) {
        let v33 = (lid + 8i);
        let v34 = s0[v33];
        v6 = (v6 + v34);
        s0[lid] = v6;
      }
      workgroupBarrier();
      if ((v0 < 4i)) {
        let v35 = (lid + 4i);
        let v36 = s0[v35];
        v6 = (v6 + v36);
        s0[lid] = v6;
      }
      workgroupBarrier();
      if ((v0 < 2i)) {
        let v37 = (lid + 2i);
        let v38 = s0[v37];
        v6 = (v6 + v38);
        s0[lid] = v6;
      }
      workgroupBarrier();
      if ((v0 < 1i)) {
        let v39 = (lid + 1i);
        let v40 = s0[v39];
        v6 = (v6 + v40);
        s0[lid] = v6;
      }
      workgroupBarrier();
      let v41 = (i32(u32(lid) / u32(16i)) * 16i);
      let v42 = s0[v41];
      let v43 = (v4 * P.p1);
      for (var v44: i32 = v0; v44 < P.p1; v44 += 16i) {
        let v45 = (v43 + v44);
        let v46 = b0[v45];
        let v47 = (v46 - v29);
        let v48 = exp(v47);
        let v49 = (v48 / v42);
        if (v3) {
          b1[v45] = v49;
        }
      }
    } else {
      if ((gid < P.p7)) {
        let v50 = i32(u32(lid) % u32(16i));
        let v51 = i32(u32(lid) / u32(16i));
        let v52 = (((gid - P.p6) * 4i) + v51);
        let v53 = (v52 < P.p2);
        let v54 = min(v52, (P.p2 - 1i));
        var v55: f32 = from_bits(0xff800000u);
        var v56: f32 = 0f;
        let v57 = (v54 * P.p3);
        for (var v58: i32 = v50; v58 < P.p3; v58 += 16i) {
          let v59 = (v57 + v58);
          let v60 = b0[v59];
          let v61 = max_nan_f32(v55, v60);
          let v62 = select(v61, 0f, (v61 == from_bits(0xff800000u)));
          let v63 = (v55 - v62);
          let v64 = exp(v63);
          let v65 = (v56 * v64);
          let v66 = (v60 - v62);
          let v67 = exp(v66);
          let v68 = (v65 + v67);
          v56 = v68;
          v55 = v61;
        }
        var v69: f32 = v55;
        workgroupBarrier();
        s0[lid] = v55;
        workgroupBarrier();
        if ((v50 < 8i)) {
          let v70 = (lid + 8i);
          let v71 = s0[v70];
          v55 = max_nan_f32(v55, v71);
          s0[lid] = v55;
        }
        workgroupBarrier();
        if ((v50 < 4i)) {
          let v72 = (lid + 4i);
          let v73 = s0[v72];
          v55 = max_nan_f32(v55, v73);
          s0[lid] = v55;
        }
        workgroupBarrier();
        if ((v50 < 2i)) {
          let v74 = (lid + 2i);
          let v75 = s0[v74];
          v55 = max_nan_f32(v55, v75);
          s0[lid] = v55;
        }
        workgroupBarrier();
        if ((v50 < 1i)) {
          let v76 = (lid + 1i);
          let v77 = s0[v76];
          v55 = max_nan_f32(v55, v77);
          s0[lid] = v55;
        }
        workgroupBarrier();
        let v78 = (i32(u32(lid) / u32(16i)) * 16i);
        let v79 = s0[v78];
        let v80 = (v69 - v79);
        let v81 = exp(v80);
        let v82 = (v56 * v81);
        v56 = v82;
        workgroupBarrier();
        s0[lid] = v56;
        workgroupBarrier();
        if ((v50 < 8i)) {
          let v83 = (lid + 8i);
          let v84 = s0[v83];
          v56 = (v56 + v84);
          s0[lid] = v56;
        }
        workgroupBarrier();
        if ((v50 < 4i)) {
          let v85 = (lid + 4i);
          let v86 = s0[v85];
          v56 = (v56 + v86);
          s0[lid] = v56;
        }
        workgroupBarrier();
        if ((v50 < 2i)) {
          let v87 = (lid + 2i);
          let v88 = s0[v87];
          v56 = (v56 + v88);
          s0[lid] = v56;
        }
        workgroupBarrier();
        if ((v50 < 1i)) {
          let v89 = (lid + 1i);
          let v90 = s0[v89];
          v56 = (v56 + v90);
          s0[lid] = v56;
        }
        workgroupBarrier();
        let v91 = (i32(u32(lid) / u32(16i)) * 16i);
        let v92 = s0[v91];
        let v93 = (v54 * P.p3);
        for (var v94: i32 = v50; v94 < P.p3; v94 += 16i) {
          let v95 = (v93 + v94);
          let v96 = b0[v95];
          let v97 = (v96 - v79);
          let v98 = exp(v97);
          let v99 = (v98 / v92);
          if (v53) {
            b2[v95] = v99;
          }
        }
      } else {
        let v100 = i32(u32(lid) % u32(16i));
        let v101 = i32(u32(lid) / u32(16i));
        let v102 = (((gid - P.p7) * 4i) + v101);
        let v103 = (v102 < P.p4);
        let v104 = min(v102, (P.p4 - 1i));
        var v105: f32 = from_bits(0xff800000u);
        var v106: f32 = 0f;
        let v107 = (v104 * P.p5);
        for (var v108: i32 = v100; v108 < P.p5; v108 += 16i) {
          let v109 = (v107 + v108);
          let v110 = b0[v109];
          let v111 = max_nan_f32(v105, v110);
          let v112 = select(v111, 0f, (v111 == from_bits(0xff800000u)));
          let v113 = (v105 - v112);
          let v114 = exp(v113);
          let v115 = (v106 * v114);
          let v116 = (v110 - v112);
          let v117 = exp(v116);
          let v118 = (v115 + v117);
          v106 = v118;
          v105 = v111;
        }
        var v119: f32 = v105;
        workgroupBarrier();
        s0[lid] = v105;
        workgroupBarrier();
        if ((v100 < 8i)) {
          let v120 = (lid + 8i);
          let v121 = s0[v120];
          v105 = max_nan_f32(v105, v121);
          s0[lid] = v105;
        }
        workgroupBarrier();
        if ((v100 < 4i)) {
          let v122 = (lid + 4i);
          let v123 = s0[v122];
          v105 = max_nan_f32(v105, v123);
          s0[lid] = v105;
        }
        workgroupBarrier();
        if ((v100 < 2i)) {
          let v124 = (lid + 2i);
          let v125 = s0[v124];
          v105 = max_nan_f32(v105, v125);
          s0[lid] = v105;
        }
        workgroupBarrier();
        if ((v100 < 1i)) {
          let v126 = (lid + 1i);
          let v127 = s0[v126];
          v105 = max_nan_f32(v105, v127);
          s0[lid] = v105;
        }
        workgroupBarrier();
        let v128 = (i32(u32(lid) / u32(16i)) * 16i);
        let v129 = s0[v128];
        let v130 = (v119 - v129);
        let v131 = exp(v130);
        let v132 = (v106 * v131);
        v106 = v132;
        workgroupBarrier();
        s0[lid] = v106;
        workgroupBarrier();
        if ((v100 < 8i)) {
          let v133 = (lid + 8i);
          let v134 = s0[v133];
          v106 = (v106 + v134);
          s0[lid] = v106;
        }
        workgroupBarrier();
        if ((v100 < 4i)) {
          let v135 = (lid + 4i);
          let v136 = s0[v135];
          v106 = (v106 + v136);
          s0[lid] = v106;
        }
        workgroupBarrier();
        if ((v100 < 2i)) {
          let v137 = (lid + 2i);
          let v138 = s0[v137];
          v106 = (v106 + v138);
          s0[lid] = v106;
        }
        workgroupBarrier();
        if ((v100 < 1i)) {
          let v139 = (lid + 1i);
          let v140 = s0[v139];
          v106 = (v106 + v140);
          s0[lid] = v106;
        }
        workgroupBarrier();
        let v141 = (i32(u32(lid) / u32(16i)) * 16i);
        let v142 = s0[v141];
        let v143 = (v104 * P.p5);
        for (var v144: i32 = v100; v144 < P.p5; v144 += 16i) {
          let v145 = (v143 + v144);
          let v146 = b0[v145];
          let v147 = (v146 - v129);
          let v148 = exp(v147);
          let v149 = (v148 / v142);
          if (v103) {
            b3[v145] = v149;
          }
        }
      }
    }
  }
}
