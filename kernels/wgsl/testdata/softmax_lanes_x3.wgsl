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
      for (var v22: i32 = v0; v22 < P.p1; v22 += 512i) {
        var v23: f32 = 0f;
        let v24 = min(P.p1, (v22 + 512i));
        for (var v25: i32 = v22; v25 < v24; v25 += 16i) {
          let v26 = (v21 + v25);
          let v27 = b0[v26];
          let v28 = (v27 - v19);
          let v29 = exp(v28);
          v23 = (v23 + v29);
        }
        v20 = (v20 + v23);
      }
      workgroupBarrier();
      s0[lid] = v20;
      workgroupBarrier();
      if ((v0 < 8i)) {
        let v30 = (lid + 8i);
        let v31 = s0[v30];
        v20 = (v20 + v31);
        s0[lid] = v20;
      }
      workgroupBarrier();
      if ((v0 < 4i)) {
        let v32 = (lid + 4i);
        let v33 = s0[v32];
        v20 = (v20 + v33);
        s0[lid] = v20;
      }
      workgroupBarrier();
      if ((v0 < 2i)) {
        let v34 = (lid + 2i);
        let v35 = s0[v34];
        v20 = (v20 + v35);
        s0[lid] = v20;
      }
      workgroupBarrier();
      if ((v0 < 1i)) {
        let v36 = (lid + 1i);
        let v37 = s0[v36];
        v20 = (v20 + v37);
        s0[lid] = v20;
      }
      workgroupBarrier();
      let v38 = (i32(u32(lid) / u32(16i)) * 16i);
      let v39 = s0[v38];
      let v40 = (v4 * P.p1);
      for (var v41: i32 = v0; v41 < P.p1; v41 += 16i) {
        let v42 = (v40 + v41);
        let v43 = b0[v42];
        let v44 = (v43 - v19);
        let v45 = exp(v44);
        let v46 = (v45 / v39);
        if (v3) {
          b1[v42] = v46;
        }
      }
    } else {
      if ((gid < P.p7)) {
        let v47 = i32(u32(lid) % u32(16i));
        let v48 = i32(u32(lid) / u32(16i));
        let v49 = (((gid - P.p6) * 4i) + v48);
        let v50 = (v49 < P.p2);
        let v51 = min(v49, (P.p2 - 1i));
        var v52: f32 = from_bits(0xff800000u);
        let v53 = (v51 * P.p3);
        for (var v54: i32 = v47; v54 < P.p3; v54 += 16i) {
          let v55 = (v53 + v54);
          let v56 = b0[v55];
          v52 = max_nan_f32(v52, v56);
        }
        workgroupBarrier();
        s0[lid] = v52;
        workgroupBarrier();
        if ((v47 < 8i)) {
          let v57 = (lid + 8i);
          let v58 = s0[v57];
          v52 = max_nan_f32(v52, v58);
          s0[lid] = v52;
        }
        workgroupBarrier();
        if ((v47 < 4i)) {
          let v59 = (lid + 4i);
          let v60 = s0[v59];
          v52 = max_nan_f32(v52, v60);
          s0[lid] = v52;
        }
        workgroupBarrier();
        if ((v47 < 2i)) {
          let v61 = (lid + 2i);
          let v62 = s0[v61];
          v52 = max_nan_f32(v52, v62);
          s0[lid] = v52;
        }
        workgroupBarrier();
        if ((v47 < 1i)) {
          let v63 = (lid + 1i);
          let v64 = s0[v63];
          v52 = max_nan_f32(v52, v64);
          s0[lid] = v52;
        }
        workgroupBarrier();
        let v65 = (i32(u32(lid) / u32(16i)) * 16i);
        let v66 = s0[v65];
        var v67: f32 = 0f;
        let v68 = (v51 * P.p3);
        for (var v69: i32 = v47; v69 < P.p3; v69 += 512i) {
          var v70: f32 = 0f;
          let v71 = min(P.p3, (v69 + 512i));
          for (var v72: i32 = v69; v72 < v71; v72 += 16i) {
            let v73 = (v68 + v72);
            let v74 = b0[v73];
            let v75 = (v74 - v66);
            let v76 = exp(v75);
            v70 = (v70 + v76);
          }
          v67 = (v67 + v70);
        }
        workgroupBarrier();
        s0[lid] = v67;
        workgroupBarrier();
        if ((v47 < 8i)) {
          let v77 = (lid + 8i);
          let v78 = s0[v77];
          v67 = (v67 + v78);
          s0[lid] = v67;
        }
        workgroupBarrier();
        if ((v47 < 4i)) {
          let v79 = (lid + 4i);
          let v80 = s0[v79];
          v67 = (v67 + v80);
          s0[lid] = v67;
        }
        workgroupBarrier();
        if ((v47 < 2i)) {
          let v81 = (lid + 2i);
          let v82 = s0[v81];
          v67 = (v67 + v82);
          s0[lid] = v67;
        }
        workgroupBarrier();
        if ((v47 < 1i)) {
          let v83 = (lid + 1i);
          let v84 = s0[v83];
          v67 = (v67 + v84);
          s0[lid] = v67;
        }
        workgroupBarrier();
        let v85 = (i32(u32(lid) / u32(16i)) * 16i);
        let v86 = s0[v85];
        let v87 = (v51 * P.p3);
        for (var v88: i32 = v47; v88 < P.p3; v88 += 16i) {
          let v89 = (v87 + v88);
          let v90 = b0[v89];
          let v91 = (v90 - v66);
          let v92 = exp(v91);
          let v93 = (v92 / v86);
          if (v50) {
            b2[v89] = v93;
          }
        }
      } else {
        let v94 = i32(u32(lid) % u32(16i));
        let v95 = i32(u32(lid) / u32(16i));
        let v96 = (((gid - P.p7) * 4i) + v95);
        let v97 = (v96 < P.p4);
        let v98 = min(v96, (P.p4 - 1i));
        var v99: f32 = from_bits(0xff800000u);
        let v100 = (v98 * P.p5);
        for (var v101: i32 = v94; v101 < P.p5; v101 += 16i) {
          let v102 = (v100 + v101);
          let v103 = b0[v102];
          v99 = max_nan_f32(v99, v103);
        }
        workgroupBarrier();
        s0[lid] = v99;
        workgroupBarrier();
        if ((v94 < 8i)) {
          let v104 = (lid + 8i);
          let v105 = s0[v104];
          v99 = max_nan_f32(v99, v105);
          s0[lid] = v99;
        }
        workgroupBarrier();
        if ((v94 < 4i)) {
          let v106 = (lid + 4i);
          let v107 = s0[v106];
          v99 = max_nan_f32(v99, v107);
          s0[lid] = v99;
        }
        workgroupBarrier();
        if ((v94 < 2i)) {
          let v108 = (lid + 2i);
          let v109 = s0[v108];
          v99 = max_nan_f32(v99, v109);
          s0[lid] = v99;
        }
        workgroupBarrier();
        if ((v94 < 1i)) {
          let v110 = (lid + 1i);
          let v111 = s0[v110];
          v99 = max_nan_f32(v99, v111);
          s0[lid] = v99;
        }
        workgroupBarrier();
        let v112 = (i32(u32(lid) / u32(16i)) * 16i);
        let v113 = s0[v112];
        var v114: f32 = 0f;
        let v115 = (v98 * P.p5);
        for (var v116: i32 = v94; v116 < P.p5; v116 += 512i) {
          var v117: f32 = 0f;
          let v118 = min(P.p5, (v116 + 512i));
          for (var v119: i32 = v116; v119 < v118; v119 += 16i) {
            let v120 = (v115 + v119);
            let v121 = b0[v120];
            let v122 = (v121 - v113);
            let v123 = exp(v122);
            v117 = (v117 + v123);
          }
          v114 = (v114 + v117);
        }
        workgroupBarrier();
        s0[lid] = v114;
        workgroupBarrier();
        if ((v94 < 8i)) {
          let v124 = (lid + 8i);
          let v125 = s0[v124];
          v114 = (v114 + v125);
          s0[lid] = v114;
        }
        workgroupBarrier();
        if ((v94 < 4i)) {
          let v126 = (lid + 4i);
          let v127 = s0[v126];
          v114 = (v114 + v127);
          s0[lid] = v114;
        }
        workgroupBarrier();
        if ((v94 < 2i)) {
          let v128 = (lid + 2i);
          let v129 = s0[v128];
          v114 = (v114 + v129);
          s0[lid] = v114;
        }
        workgroupBarrier();
        if ((v94 < 1i)) {
          let v130 = (lid + 1i);
          let v131 = s0[v130];
          v114 = (v114 + v131);
          s0[lid] = v114;
        }
        workgroupBarrier();
        let v132 = (i32(u32(lid) / u32(16i)) * 16i);
        let v133 = s0[v132];
        let v134 = (v98 * P.p5);
        for (var v135: i32 = v94; v135 < P.p5; v135 += 16i) {
          let v136 = (v134 + v135);
          let v137 = b0[v136];
          let v138 = (v137 - v113);
          let v139 = exp(v138);
          let v140 = (v139 / v133);
          if (v97) {
            b3[v136] = v140;
          }
        }
      }
    }
  }
}
