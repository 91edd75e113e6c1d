@group(0) @binding(0) var<storage, read> b0: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> b1: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> b2: array<f32>;
@group(0) @binding(3) var<storage, read_write> b3: array<vec4<f32>>;
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
@group(0) @binding(4) var<uniform> P: Params;
var<workgroup> s0: array<vec4<f32>, 72>;
var<workgroup> s1: array<vec4<f32>, 72>;
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
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let gid = i32(wg.y * 32768u + wg.x);
  let lid = i32(local);
  let v0 = i32(u32((P.p0 + 31i)) / u32(32i));
  let v1 = i32(u32((P.p1 + 31i)) / u32(32i));
  let v2 = (v0 * v1);
  let v3 = i32(u32(gid) % u32(v2));
  let v4 = (v1 * 8i);
  let v5 = (i32(u32(v3) / u32(v4)) * 8i);
  let v6 = min((v0 - v5), 8i);
  let v7 = i32(u32(v3) % u32(v4));
  let v8 = ((v5 + i32(u32(v7) % u32(v6))) * 32i);
  let v9 = (i32(u32(v7) / u32(v6)) * 32i);
  let v10 = i32(u32(gid) / u32(v2));
  let v11 = i32(u32(lid) / u32(32i));
  let v12 = i32(u32(lid) % u32(32i));
  let v13 = ((i32(u32(v12) / u32(16i)) * 2i) + i32(u32(v12) % u32(2i)));
  let v14 = i32(u32(i32(u32(v12) % u32(16i))) / u32(2i));
  let v15 = ((v11 * 16i) + (v13 * 4i));
  let v16 = (v14 * 4i);
  let v17 = i32(u32(P.p4) / u32(4i));
  let v18 = i32(u32(lid) / u32(2i));
  let v19 = i32(u32(lid) % u32(2i));
  let v20 = i32(u32((P.p5 + (min((v8 + v18), (P.p0 - 1i)) * P.p3))) / u32(4i));
  let v21 = (v19 * 4i);
  let v22 = ((v21 * 36i) + v18);
  let v23 = i32(u32(P.p6) / u32(4i));
  let v24 = i32(u32(lid) / u32(8i));
  let v25 = i32(u32(lid) % u32(8i));
  let v26 = (v25 * 4i);
  let v27 = i32(u32((P.p8 + min((v9 + v26), (P.p1 - 4i)))) / u32(4i));
  let v28 = ((v24 * 36i) + v26);
  var v29: vec4<f32> = vec4<f32>(0f);
  var v30: vec4<f32> = vec4<f32>(0f);
  var v31: vec4<f32> = vec4<f32>(0f);
  var v32: vec4<f32> = vec4<f32>(0f);
  for (var v33: i32 = 0i; v33 < P.p2; v33 += 8i) {
    let v34 = (v33 + v21);
    let v35 = min(v34, (P.p2 - 4i));
    let v36 = (v20 + i32(u32(v35) / u32(4i)));
    let v37 = b0[v36];
    let v38 = select(vec4<f32>(0f), v37, vec4<bool>((v34 < P.p2)));
    s0[v22 >> 2u][v22 & 3i] = v38.x;
    let v39 = (v22 + 36i);
    s0[v39 >> 2u][v39 & 3i] = v38.y;
    let v40 = (v22 + 72i);
    s0[v40 >> 2u][v40 & 3i] = v38.z;
    let v41 = (v22 + 108i);
    s0[v41 >> 2u][v41 & 3i] = v38.w;
    let v42 = (v33 + v24);
    let v43 = min(v42, (P.p2 - 1i));
    let v44 = (v27 + (v43 * v23));
    let v45 = b1[v44];
    s1[i32(u32(v28) / u32(4i))] = select(vec4<f32>(0f), v45, vec4<bool>((v42 < P.p2)));
    workgroupBarrier();
    let v46 = i32(u32(v15) / u32(4i));
    let v47 = i32(u32(v16) / u32(4i));
    for (var v48: i32 = 0i; v48 < 8i; v48 += 1i) {
      let v49 = s0[(v46 + (v48 * 9i))];
      let v50 = s1[(v47 + (v48 * 9i))];
      v29 = fma(vec4<f32>(v49.x), v50, v29);
      v30 = fma(vec4<f32>(v49.y), v50, v30);
      v31 = fma(vec4<f32>(v49.z), v50, v31);
      v32 = fma(vec4<f32>(v49.w), v50, v32);
    }
    workgroupBarrier();
  }
  let v51 = (v9 + v16);
  let v52 = (P.p10 + (min(v51, (P.p1 - 1i)) * P.p9));
  let v53 = b2[v52];
  let v54 = (P.p10 + (min((v51 + 1i), (P.p1 - 1i)) * P.p9));
  let v55 = b2[v54];
  let v56 = (P.p10 + (min((v51 + 2i), (P.p1 - 1i)) * P.p9));
  let v57 = b2[v56];
  let v58 = (P.p10 + (min((v51 + 3i), (P.p1 - 1i)) * P.p9));
  let v59 = b2[v58];
  let v60 = vec4<f32>(v53, v55, v57, v59);
  let v61 = (v8 + v15);
  if (((v61 < P.p0) & (v51 < P.p1))) {
    let v62 = (v61 * P.p1);
    let v63 = (v29 + v60);
    let v64 = ((vec4<f32>(0.5f) * v63) * (vec4<f32>(1f) + erf_f32x4((v63 * vec4<f32>(0.70710677f)))));
    let v65 = i32(u32((v62 + v51)) / u32(4i));
    b3[v65] = v64;
  }
  let v66 = (v8 + (v15 + 1i));
  if (((v66 < P.p0) & (v51 < P.p1))) {
    let v67 = (v66 * P.p1);
    let v68 = (v30 + v60);
    let v69 = ((vec4<f32>(0.5f) * v68) * (vec4<f32>(1f) + erf_f32x4((v68 * vec4<f32>(0.70710677f)))));
    let v70 = i32(u32((v67 + v51)) / u32(4i));
    b3[v70] = v69;
  }
  let v71 = (v8 + (v15 + 2i));
  if (((v71 < P.p0) & (v51 < P.p1))) {
    let v72 = (v71 * P.p1);
    let v73 = (v31 + v60);
    let v74 = ((vec4<f32>(0.5f) * v73) * (vec4<f32>(1f) + erf_f32x4((v73 * vec4<f32>(0.70710677f)))));
    let v75 = i32(u32((v72 + v51)) / u32(4i));
    b3[v75] = v74;
  }
  let v76 = (v8 + (v15 + 3i));
  if (((v76 < P.p0) & (v51 < P.p1))) {
    let v77 = (v76 * P.p1);
    let v78 = (v32 + v60);
    let v79 = ((vec4<f32>(0.5f) * v78) * (vec4<f32>(1f) + erf_f32x4((v78 * vec4<f32>(0.70710677f)))));
    let v80 = i32(u32((v77 + v51)) / u32(4i));
    b3[v80] = v79;
  }
}
