
// Details of a node, and what the user chose.

// --- Details

function overview() {
  const p = plan(), w = data.windows.find((x) => x.number === p.windows.at(-1)) || {};
  const why = { read: 'a value was read', stores: 'a flush or the end of a step', budget: 'much was pending' }[w.why];
  const hot = (b) => el('tr', { class: 'go', onclick: () => select(b.node, true), ...hover(() => tipOfBlock(b)) },
    el('td', time(b.time)), el('td', b.name, ' ', span('dim', shortSite(p.program[b.node]))));
  return [el('h2', 'Hottest launches'), el('table', p.hottest.slice(0, 12).map(hot)),
    el('h3', 'Window'), pairs([['why it ran', why], ['finding its plan', w.key_ns && time(w.key_ns / 1e3)],
      ['building the plan', w.built_because ? time(w.plan_ns / 1e3) : 'not needed: it was known'],
      ['running', w.run_ns && `${time(w.run_ns / 1e3)} on the host`], ['plan', `${p.number}, run ${p.runs} times`],
      ['built because', p.built_because]]),
    el('h3', 'Measured roofs'), ...Object.entries(data.roofs).map(([d, r]) =>
      el('p', `${d}: ${byteRate(r.bytes_per_s)}, ${flopRate(r.flops_per_s)} in float32`)),
    el('p', { class: 'dim' }, 'B/s are those of large tensors. A launch whose data are in a cache exceeds them.')];
}

function bar(name, rate, most, share) {
  return [el('div', `${name} `, span('dim', `${rate} of ${most}, ${percent(share)}`)),
    el('div', { class: 'roof' }, el('i', { style: `width:${Math.min(100, 100 * share)}%` }))];
}

function details(i) {
  const n = nodeAt(i), p = plan(), b = n.block, r = b && rates(b), own = i >= 0, life = n.life;
  const out = [el('h2', `${nameOf(i)} ${n.op || 'input'}`), el('pre', { class: 'mono' }, n.text)];
  if (own) {
    const site = data.sites[n.site], scope = data.scopes[n.scope].join(' › ');
    out.push(el('h3', 'Recorded at'), el('p', { class: 'mono' }, site.at || 'an unknown line'),
      site.text && el('pre', { class: 'mono' }, site.text), scope && el('p', scope, n.backward && ' (backward)'));
  }
  const held = life ? `${life.slot.kind} ${life.slot.number}, ${bytes(life.slot.pool_bytes)}`
    : 'none: it lives in registers or a tile';
  out.push(el('h3', 'Value'), pairs([['type', shapeOf(n)], ['bytes', bytes(n.bytes)], ['device', n.device],
    ['reads', own && links(n.reads)], ['read by', links(n.readers)], ['held outside', own && (n.live ? 'yes' : 'no')],
    ['buffer', own && held]]));
  if (b && b.launches.length) {
    const group = b.members.length > 1;
    out.push(el('h3', group ? `Launch of a group of ${b.members.length}` : 'Launch'),
      group && el('p', links(b.members)), pairs([...b.launches.map((k) => [time(k.time), k.name]),
        ['share', percent(b.time / p.time)], ['moves', bytes(b.bytes)], ['computes', flops(b.flops)]]));
    if (r) {
      out.push(el('p'), ...bar('Memory', byteRate(r.moved), byteRate(r.roof.bytes_per_s), r.ofBytes),
        ...bar('Arithmetic', flopRate(r.computed), flopRate(r.roof.flops_per_s), r.ofFlops));
    }
  }
  const see = (pass) => () => { Object.assign(state, { tab: 'passes', pass }); refresh(true); };
  const decided = p.passes.map((x, k) => [el('a', { class: 'ref', onclick: see(k) }, x.name), x.notes[i]]);
  if (own) out.push(el('h3', 'Passes'), pairs(decided));
  return out.filter(Boolean);
}

// --- State

function drawOptions() {
  const toggle = (text, on, does) =>
    el('button', { 'aria-pressed': String(on), onclick: () => { does(); refresh(); } }, text);
  const choice = (key, ...values) => values.map((v) => toggle(v, state[key] === v, () => { state[key] = v; }));
  const swatch = (name, text) => span('key', el('i', { style: `background:var(--${name})` }), text);
  const kind = (k, name) => toggle(swatch(k, name), state.kinds[k], () => { state.kinds[k] = !state.kinds[k]; });
  $('options').replaceChildren(...{
    program: () => [swatch('reads', 'read by the selected'), swatch('readers', 'reads it'), 'time of a launch: 0',
      span('ramp'), time(plan().most)],
    passes: () => [toggle('only what the pass decided', state.changed, onlyDecided)],
    memory: () => [kind('buffer', 'temporaries'), kind('output', 'results'), kind('input', 'inputs'), el('i'),
      ...choice('layout', 'by bytes', 'by size class'), el('i'), ...choice('axis', 'launches', 'time')],
    hot: () => choice('by', 'operation', 'module', 'line'),
  }[state.tab]());
}

const onlyDecided = () => { state.changed = !state.changed; };

/** Selects a node; with go, brings it into view. */
function select(i, go = false) {
  state.node = state.node === i && !go ? null : i;
  if (go && state.tab !== 'passes') state.tab = 'program';
  refresh(go);
}

const tabs = document.querySelectorAll('[role="tab"]');
const draws = { program: drawProgram, passes: drawPasses, memory: () => memory.draw(), hot: drawHot };

function refresh(go = false) {
  hideTip();
  drawHeader();
  drawOptions();
  for (const tab of tabs) tab.setAttribute('aria-selected', String(tab.dataset.tab === state.tab));
  for (const name in draws) $(name).hidden = name !== state.tab;
  strip.draw();
  draws[state.tab]();
  const rows = { program: programRows, passes: passRows }[state.tab];
  const at = rows && go && state.node !== null ? rows.rows.findIndex((r) => r.node === state.node) : -1;
  if (at >= 0) rows.show(at);
  $('details').replaceChildren(...(state.node === null ? overview() : details(state.node)));
  const { plan: window, tab, node, query } = state, pass = plan().passes[state.pass].name;
  history.replaceState(null, '', `#${new URLSearchParams({ window, tab, node: node ?? '', pass, query })}`);
}

function step(by) {
  const order = programRows.rows.map((r) => r.node).filter((i) => i !== undefined), at = order.indexOf(state.node);
  if (order.length) select(order[at < 0 ? 0 : Math.max(0, Math.min(order.length - 1, at + by))], true);
}

function hottest() {
  const list = plan().hottest, at = list.findIndex((b) => b.nodes.includes(state.node));
  if (list.length) select(list[(at + 1) % list.length].node, true);
}

data.plans.forEach(prepare);
const start = new URLSearchParams(location.hash.slice(1));
state.plan = Math.min(+start.get('window') || 0, data.plans.length - 1);
if (start.get('tab') in draws) state.tab = start.get('tab');
if (start.get('node') && nodeAt(+start.get('node'))) state.node = +start.get('node');
const told = plan().passes.findIndex((p) => p.name === (start.get('pass') || 'fuse'));
state.pass = told < 0 ? 0 : told;
$('search').value = state.query = start.get('query') || '';
$('search').placeholder = 'Search: op, module, file, %12  ( / )';
$('search').oninput = (e) => { state.query = e.target.value; refresh(); };
const go = (tab) => () => { state.tab = tab; refresh(true); };
for (const tab of tabs) tab.onclick = go(tab.dataset.tab);
onKeys({
  1: go('program'), 2: go('passes'), 3: go('memory'), 4: go('hot'), j: () => step(1), k: () => step(-1), h: hottest,
  '[': () => toPass(state.pass - 1), ']': () => toPass(state.pass + 1), c: () => { onlyDecided(); refresh(); },
  '+': () => memory.zoom(0.7), '-': () => memory.zoom(1.4), 0: () => memory.reset(),
});
drawWindows();
refresh(true);
if (state.tab === 'passes' && state.node === null) toPass(state.pass);
root.dataset.ready = 'plan';
