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
  let c = clamp(x, vec4<f32>(-104.0), vec4<f32>(89.0));
  let n = round(c * vec4<f32>(1.4426950408889634));
  let r = fma(n, vec4<f32>(-1.4286068203094173e-06), fma(n, vec4<f32>(-0.693145751953125), c));
  var p = vec4<f32>(0.001393454265780747);
  p = fma(p, r, vec4<f32>(0.008363776840269566));
  p = fma(p, r, vec4<f32>(0.04166645556688309));
  p = fma(p, r, vec4<f32>(0.16666573286056519));
  p = fma(p, r, vec4<f32>(0.5));
  p = fma(p, r * r, r) + vec4<f32>(1.0);
  let i = vec4<i32>(n);
  let h = i / vec4<i32>(2);
  let y = p * bitcast<vec4<f32>>((h + vec4<i32>(127)) << vec4<u32>(23u)) * bitcast<vec4<f32>>((i - h + vec4<i32>(127)) << vec4<u32>(23u));
  return select(y, x, is_nan_f32x4(x));
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
  let v0 = i32(u32((P.p1 + 31i)) / u32(32i));
  let v1 = i32(u32((P.p0 + 31i)) / u32(32i));
  let v2 = (v1 * v0);
  let v3 = i32(u32(gid) % u32(v2));
  let v4 = (i32(u32(v3) / u32(v0)) * 32i);
  let v5 = (i32(u32(v3) % u32(v0)) * 32i);
  let v6 = i32(u32(gid) / u32(v2));
  let v7 = i32(u32(lid) / u32(32i));
  let v8 = i32(u32(lid) % u32(32i));
  let v9 = ((v7 * 16i) + (i32(u32(v8) / u32(8i)) * 4i));
  let v10 = (i32(u32(v8) % u32(8i)) * 4i);
  let v11 = i32(u32(P.p4) / u32(4i));
  let v12 = i32(u32(lid) / u32(2i));
  let v13 = (i32(u32(lid) % u32(2i)) * 4i);
  let v14 = i32(u32((P.p5 + (min((v4 + v12), (P.p0 - 1i)) * P.p3))) / u32(4i));
  let v15 = ((v13 * 36i) + v12);
  let v16 = i32(u32(P.p6) / u32(4i));
  let v17 = i32(u32(lid) / u32(8i));
  let v18 = (i32(u32(lid) % u32(8i)) * 4i);
  let v19 = i32(u32((P.p8 + min((v5 + v18), (P.p1 - 4i)))) / u32(4i));
  let v20 = ((v17 * 36i) + v18);
  var v21: vec4<f32> = vec4<f32>(0f);
  var v22: vec4<f32> = vec4<f32>(0f);
  var v23: vec4<f32> = vec4<f32>(0f);
  var v24: vec4<f32> = vec4<f32>(0f);
  for (var v25: i32 = 0i; v25 < P.p2; v25 += 8i) {
    let v26 = (v25 + v13);
    let v27 = min(v26, (P.p2 - 4i));
    let v28 = (v14 + i32(u32(v27) / u32(4i)));
    let v29 = b0[v28];
    let v30 = select(vec4<f32>(0f), v29, vec4<bool>((v26 < P.p2)));
    s0[v15 >> 2u][v15 & 3i] = v30.x;
    let v31 = (v15 + 36i);
    s0[v31 >> 2u][v31 & 3i] = v30.y;
    let v32 = (v15 + 72i);
    s0[v32 >> 2u][v32 & 3i] = v30.z;
    let v33 = (v15 + 108i);
    s0[v33 >> 2u][v33 & 3i] = v30.w;
    let v34 = (v25 + v17);
    let v35 = min(v34, (P.p2 - 1i));
    let v36 = (v19 + (v35 * v16));
    let v37 = b1[v36];
    s1[i32(u32(v20) / u32(4i))] = select(vec4<f32>(0f), v37, vec4<bool>((v34 < P.p2)));
    workgroupBarrier();
    let v38 = i32(u32(v9) / u32(4i));
    let v39 = i32(u32(v10) / u32(4i));
    for (var v40: i32 = 0i; v40 < 8i; v40 += 1i) {
      let v41 = s0[(v38 + (v40 * 9i))];
      let v42 = s1[(v39 + (v40 * 9i))];
      v21 = fma(vec4<f32>(v41.x), v42, v21);
      v22 = fma(vec4<f32>(v41.y), v42, v22);
      v23 = fma(vec4<f32>(v41.z), v42, v23);
      v24 = fma(vec4<f32>(v41.w), v42, v24);
    }
    workgroupBarrier();
  }
  let v43 = (v5 + v10);
  let v44 = (P.p10 + (min(v43, (P.p1 - 1i)) * P.p9));
  let v45 = b2[v44];
  let v46 = (P.p10 + (min((v43 + 1i), (P.p1 - 1i)) * P.p9));
  let v47 = b2[v46];
  let v48 = (P.p10 + (min((v43 + 2i), (P.p1 - 1i)) * P.p9));
  let v49 = b2[v48];
  let v50 = (P.p10 + (min((v43 + 3i), (P.p1 - 1i)) * P.p9));
  let v51 = b2[v50];
  let v52 = vec4<f32>(v45, v47, v49, v51);
  let v53 = (v4 + v9);
  if (((v53 < P.p0) & (v43 < P.p1))) {
    let v54 = (v53 * P.p1);
    let v55 = (v21 + v52);
    let v56 = ((vec4<f32>(0.5f) * v55) * (vec4<f32>(1f) + erf_f32x4((v55 * vec4<f32>(0.70710677f)))));
    let v57 = i32(u32((v54 + v43)) / u32(4i));
    b3[v57] = v56;
  }
  let v58 = (v4 + (v9 + 1i));
  if (((v58 < P.p0) & (v43 < P.p1))) {
    let v59 = (v58 * P.p1);
    let v60 = (v22 + v52);
    let v61 = ((vec4<f32>(0.5f) * v60) * (vec4<f32>(1f) + erf_f32x4((v60 * vec4<f32>(0.70710677f)))));
    let v62 = i32(u32((v59 + v43)) / u32(4i));
    b3[v62] = v61;
  }
  let v63 = (v4 + (v9 + 2i));
  if (((v63 < P.p0) & (v43 < P.p1))) {
    let v64 = (v63 * P.p1);
    let v65 = (v23 + v52);
    let v66 = ((vec4<f32>(0.5f) * v65) * (vec4<f32>(1f) + erf_f32x4((v65 * vec4<f32>(0.70710677f)))));
    let v67 = i32(u32((v64 + v43)) / u32(4i));
    b3[v67] = v66;
  }
  let v68 = (v4 + (v9 + 3i));
  if (((v68 < P.p0) & (v43 < P.p1))) {
    let v69 = (v68 * P.p1);
    let v70 = (v24 + v52);
    let v71 = ((vec4<f32>(0.5f) * v70) * (vec4<f32>(1f) + erf_f32x4((v70 * vec4<f32>(0.70710677f)))));
    let v72 = i32(u32((v69 + v43)) / u32(4i));
    b3[v72] = v71;
  }
}
