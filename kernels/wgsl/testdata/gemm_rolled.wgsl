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
  let v13 = ((v11 * 16i) + (((i32(u32(v12) / u32(16i)) * 2i) + i32(u32(v12) % u32(2i))) * 4i));
  let v14 = (i32(u32(i32(u32(v12) / u32(2i))) % u32(8i)) * 4i);
  let v15 = i32(u32(P.p4) / u32(4i));
  let v16 = i32(u32(lid) / u32(2i));
  let v17 = (i32(u32(lid) % u32(2i)) * 4i);
  let v18 = i32(u32((P.p5 + (min((v8 + v16), (P.p0 - 1i)) * P.p3))) / u32(4i));
  let v19 = ((v17 * 36i) + v16);
  let v20 = i32(u32(P.p6) / u32(4i));
  let v21 = i32(u32(lid) / u32(8i));
  let v22 = (i32(u32(lid) % u32(8i)) * 4i);
  let v23 = i32(u32((P.p8 + min((v9 + v22), (P.p1 - 4i)))) / u32(4i));
  let v24 = ((v21 * 36i) + v22);
  var v25: vec4<f32> = vec4<f32>(0f);
  var v26: vec4<f32> = vec4<f32>(0f);
  var v27: vec4<f32> = vec4<f32>(0f);
  var v28: vec4<f32> = vec4<f32>(0f);
  for (var v29: i32 = 0i; v29 < P.p2; v29 += 8i) {
    let v30 = (v29 + v17);
    let v31 = min(v30, (P.p2 - 4i));
    let v32 = (v18 + i32(u32(v31) / u32(4i)));
    let v33 = b0[v32];
    let v34 = select(vec4<f32>(0f), v33, vec4<bool>((v30 < P.p2)));
    s0[v19 >> 2u][v19 & 3i] = v34.x;
    let v35 = (v19 + 36i);
    s0[v35 >> 2u][v35 & 3i] = v34.y;
    let v36 = (v19 + 72i);
    s0[v36 >> 2u][v36 & 3i] = v34.z;
    let v37 = (v19 + 108i);
    s0[v37 >> 2u][v37 & 3i] = v34.w;
    let v38 = (v29 + v21);
    let v39 = min(v38, (P.p2 - 1i));
    let v40 = (v23 + (v39 * v20));
    let v41 = b1[v40];
    s1[i32(u32(v24) / u32(4i))] = select(vec4<f32>(0f), v41, vec4<bool>((v38 < P.p2)));
    workgroupBarrier();
    let v42 = i32(u32(v13) / u32(4i));
    let v43 = i32(u32(v14) / u32(4i));
    for (var v44: i32 = 0i; v44 < 8i; v44 += 1i) {
      let v45 = s0[(v42 + (v44 * 9i))];
      let v46 = s1[(v43 + (v44 * 9i))];
      v25 = fma(vec4<f32>(v45.x), v46, v25);
      v26 = fma(vec4<f32>(v45.y), v46, v26);
      v27 = fma(vec4<f32>(v45.z), v46, v27);
      v28 = fma(vec4<f32>(v45.w), v46, v28);
    }
    workgroupBarrier();
  }
  let v47 = (v9 + v14);
  let v48 = (P.p10 + (min(v47, (P.p1 - 1i)) * P.p9));
  let v49 = b2[v48];
  let v50 = (P.p10 + (min((v47 + 1i), (P.p1 - 1i)) * P.p9));
  let v51 = b2[v50];
  let v52 = (P.p10 + (min((v47 + 2i), (P.p1 - 1i)) * P.p9));
  let v53 = b2[v52];
  let v54 = (P.p10 + (min((v47 + 3i), (P.p1 - 1i)) * P.p9));
  let v55 = b2[v54];
  let v56 = vec4<f32>(v49, v51, v53, v55);
  let v57 = (v8 + v13);
  if (((v57 < P.p0) & (v47 < P.p1))) {
    let v58 = (v57 * P.p1);
    let v59 = (v25 + v56);
    let v60 = ((vec4<f32>(0.5f) * v59) * (vec4<f32>(1f) + erf_f32x4((v59 * vec4<f32>(0.70710677f)))));
    let v61 = i32(u32((v58 + v47)) / u32(4i));
    b3[v61] = v60;
  }
  let v62 = (v8 + (v13 + 1i));
  if (((v62 < P.p0) & (v47 < P.p1))) {
    let v63 = (v62 * P.p1);
    let v64 = (v26 + v56);
    let v65 = ((vec4<f32>(0.5f) * v64) * (vec4<f32>(1f) + erf_f32x4((v64 * vec4<f32>(0.70710677f)))));
    let v66 = i32(u32((v63 + v47)) / u32(4i));
    b3[v66] = v65;
  }
  let v67 = (v8 + (v13 + 2i));
  if (((v67 < P.p0) & (v47 < P.p1))) {
    let v68 = (v67 * P.p1);
    let v69 = (v27 + v56);
    let v70 = ((vec4<f32>(0.5f) * v69) * (vec4<f32>(1f) + erf_f32x4((v69 * vec4<f32>(0.70710677f)))));
    let v71 = i32(u32((v68 + v47)) / u32(4i));
    b3[v71] = v70;
  }
  let v72 = (v8 + (v13 + 3i));
  if (((v72 < P.p0) & (v47 < P.p1))) {
    let v73 = (v72 * P.p1);
    let v74 = (v28 + v56);
    let v75 = ((vec4<f32>(0.5f) * v74) * (vec4<f32>(1f) + erf_f32x4((v74 * vec4<f32>(0.70710677f)))));
    let v76 = i32(u32((v73 + v47)) / u32(4i));
    b3[v76] = v75;
  }
}
