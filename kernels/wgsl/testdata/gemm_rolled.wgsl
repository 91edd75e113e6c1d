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
  let v19 = (i32(u32(lid) % u32(2i)) * 4i);
  let v20 = i32(u32((P.p5 + (min((v8 + v18), (P.p0 - 1i)) * P.p3))) / u32(4i));
  let v21 = ((v19 * 36i) + v18);
  let v22 = i32(u32(P.p6) / u32(4i));
  let v23 = i32(u32(lid) / u32(8i));
  let v24 = (i32(u32(lid) % u32(8i)) * 4i);
  let v25 = i32(u32((P.p8 + min((v9 + v24), (P.p1 - 4i)))) / u32(4i));
  let v26 = ((v23 * 36i) + v24);
  var v27: vec4<f32> = vec4<f32>(0f);
  var v28: vec4<f32> = vec4<f32>(0f);
  var v29: vec4<f32> = vec4<f32>(0f);
  var v30: vec4<f32> = vec4<f32>(0f);
  for (var v31: i32 = 0i; v31 < P.p2; v31 += 8i) {
    let v32 = (v31 + v19);
    let v33 = min(v32, (P.p2 - 4i));
    let v34 = (v20 + i32(u32(v33) / u32(4i)));
    let v35 = b0[v34];
    let v36 = select(vec4<f32>(0f), v35, vec4<bool>((v32 < P.p2)));
    s0[v21 >> 2u][v21 & 3i] = v36.x;
    let v37 = (v21 + 36i);
    s0[v37 >> 2u][v37 & 3i] = v36.y;
    let v38 = (v21 + 72i);
    s0[v38 >> 2u][v38 & 3i] = v36.z;
    let v39 = (v21 + 108i);
    s0[v39 >> 2u][v39 & 3i] = v36.w;
    let v40 = (v31 + v23);
    let v41 = min(v40, (P.p2 - 1i));
    let v42 = (v25 + (v41 * v22));
    let v43 = b1[v42];
    s1[i32(u32(v26) / u32(4i))] = select(vec4<f32>(0f), v43, vec4<bool>((v40 < P.p2)));
    workgroupBarrier();
    let v44 = i32(u32(v15) / u32(4i));
    let v45 = i32(u32(v16) / u32(4i));
    for (var v46: i32 = 0i; v46 < 8i; v46 += 1i) {
      let v47 = s0[(v44 + (v46 * 9i))];
      let v48 = s1[(v45 + (v46 * 9i))];
      v27 = fma(vec4<f32>(v47.x), v48, v27);
      v28 = fma(vec4<f32>(v47.y), v48, v28);
      v29 = fma(vec4<f32>(v47.z), v48, v29);
      v30 = fma(vec4<f32>(v47.w), v48, v30);
    }
    workgroupBarrier();
  }
  let v49 = (v9 + v16);
  let v50 = (P.p10 + (min(v49, (P.p1 - 1i)) * P.p9));
  let v51 = b2[v50];
  let v52 = (P.p10 + (min((v49 + 1i), (P.p1 - 1i)) * P.p9));
  let v53 = b2[v52];
  let v54 = (P.p10 + (min((v49 + 2i), (P.p1 - 1i)) * P.p9));
  let v55 = b2[v54];
  let v56 = (P.p10 + (min((v49 + 3i), (P.p1 - 1i)) * P.p9));
  let v57 = b2[v56];
  let v58 = vec4<f32>(v51, v53, v55, v57);
  let v59 = (v8 + v15);
  if (((v59 < P.p0) & (v49 < P.p1))) {
    let v60 = (v59 * P.p1);
    let v61 = (v27 + v58);
    let v62 = ((vec4<f32>(0.5f) * v61) * (vec4<f32>(1f) + erf_f32x4((v61 * vec4<f32>(0.70710677f)))));
    let v63 = i32(u32((v60 + v49)) / u32(4i));
    b3[v63] = v62;
  }
  let v64 = (v8 + (v15 + 1i));
  if (((v64 < P.p0) & (v49 < P.p1))) {
    let v65 = (v64 * P.p1);
    let v66 = (v28 + v58);
    let v67 = ((vec4<f32>(0.5f) * v66) * (vec4<f32>(1f) + erf_f32x4((v66 * vec4<f32>(0.70710677f)))));
    let v68 = i32(u32((v65 + v49)) / u32(4i));
    b3[v68] = v67;
  }
  let v69 = (v8 + (v15 + 2i));
  if (((v69 < P.p0) & (v49 < P.p1))) {
    let v70 = (v69 * P.p1);
    let v71 = (v29 + v58);
    let v72 = ((vec4<f32>(0.5f) * v71) * (vec4<f32>(1f) + erf_f32x4((v71 * vec4<f32>(0.70710677f)))));
    let v73 = i32(u32((v70 + v49)) / u32(4i));
    b3[v73] = v72;
  }
  let v74 = (v8 + (v15 + 3i));
  if (((v74 < P.p0) & (v49 < P.p1))) {
    let v75 = (v74 * P.p1);
    let v76 = (v30 + v58);
    let v77 = ((vec4<f32>(0.5f) * v76) * (vec4<f32>(1f) + erf_f32x4((v76 * vec4<f32>(0.70710677f)))));
    let v78 = i32(u32((v75 + v49)) / u32(4i));
    b3[v78] = v77;
  }
}
