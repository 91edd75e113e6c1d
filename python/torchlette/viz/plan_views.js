
// The other views of a plan: passes, memory, hot spots.

// --- Passes

const passList = el('nav', { role: 'listbox', 'aria-label': 'Passes' }), passText = el('p');
const passHeads = [el('div'), el('div')], passScroll = el('div', { class: 'scroll' });
$('passes').append(passList,
  el('div', { class: 'side' }, passText, el('div', { class: 'cols' }, passHeads), passScroll));

const passRows = new Rows(passScroll, (r) => {
  const n = nodeAt(r.node), own = plan().passes[state.pass].notes[r.node];
  const earlier = plan().passes.slice(0, state.pass).map((p) => p.notes[r.node]).filter(Boolean);
  const side = (...fresh) => el('div', el('div', { class: 'mono' }, lineOf(n, r.find.terms)),
    el('div', { class: 'notes' }, fresh, earlier.join(' · ')));
  return el('div', { class: `row pair${state.node === r.node ? ' selected' : ''}`, onclick: () => select(r.node),
    ...hover(() => [...tipOf(r.node), pairs([['before', earlier.join('; ')], ['decides', own]])]) },
  side(), side(own && span('tag new', own), ' '));
});

function drawPasses() {
  const p = plan(), pass = p.passes[state.pass], find = matcher(state.query);
  const count = (x) => Object.keys(x.notes).length;
  passList.replaceChildren(...p.passes.map((x, i) => el('button', { role: 'option', class: x.off ? 'off' : '',
    'aria-selected': String(i === state.pass), onclick: () => toPass(i) },
  x.name, span('dim', x.off ? 'off' : count(x)))));
  const optional = pass.optional ? ` TORCHLETTE_DISABLE=${pass.name} leaves it out.` : '';
  passText.textContent = pass.off ? `${pass.name} was left out.`
    : `Why it runs here: ${pass.reason}. It decides about ${count(pass)} of ${p.program.length} nodes.${optional}`;
  passHeads[0].textContent = `before ${pass.name}`;
  passHeads[1].textContent = `after ${pass.name}`;
  const words = (n) => `${n.words} ${p.passes.map((x) => x.notes[n.number] || '').join(' ').toLowerCase()}`;
  passRows.set(p.program.filter((n) => (!state.changed || pass.notes[n.number]) && find.test(words(n)))
    .map((n) => ({ height: 42, node: n.number, find })));
}

/** Shows a pass, from the first node that it decides about. */
function toPass(i) {
  state.pass = Math.max(0, Math.min(plan().passes.length - 1, i));
  state.tab = 'passes';
  refresh();
  passRows.show(Math.max(0, passRows.rows.findIndex((r) => plan().passes[state.pass].notes[r.node])));
}

// --- Memory

const memoryCanvas = el('canvas', { 'aria-label': 'Buffers over the launches of the window' });
$('memory').append(memoryCanvas);
const CURVE = 84; // the height of the curve of bytes in use

/** The bands of the buffers that are shown, from the bottom: large ones first. */
function bands(p) {
  const shown = p.buffers.map((b, i) => ({ ...b, i })).filter((b) => state.kinds[b.kind])
    .sort((x, y) => y.pool_bytes - x.pool_bytes || x.i - y.i);
  let total = 0;
  for (const b of shown) {
    b.from = total;
    b.to = total += state.layout === 'by bytes' ? b.pool_bytes : 1;
  }
  return { shown, found: new Map(shown.map((b) => [b.i, b])), total: total || 1 };
}

/** Where each node begins and ends on the axis, as a share of it. Nodes of one launch run together. */
function axis(p) {
  p.axes ??= {};
  if (p.axes[state.axis]) return p.axes[state.axis];
  const weight = (b) => state.axis === 'time' ? b.time : b.launches.length ? 1 : 0;
  const total = sum(p.blocks.map(weight)) || 1, starts = [], ends = [];
  let at = 0;
  for (const b of p.blocks) {
    for (const i of b.nodes) { starts[i] = at / total; ends[i] = (at + weight(b)) / total; }
    at += weight(b);
  }
  return p.axes[state.axis] = { starts, ends };
}

const memory = new ZoomChart(memoryCanvas, (c, w, h) => {
  const p = plan(), { shown, found, total } = bands(p), { starts, ends } = axis(p), find = matcher(state.query);
  const end = p.program.length;
  const bottom = h - 18, room = bottom - CURVE - 24, y = (v) => bottom - v / total * room;
  memory.boxes = [];
  c.save();
  c.beginPath();
  c.rect(memory.left, 0, w, h);
  c.clip();
  c.fillStyle = color('faint');
  for (const b of shown) c.fillRect(memory.left, y(b.to), w, Math.max(0.5, y(b.from) - y(b.to) - 0.5));
  for (const l of p.lives) {
    const band = found.get(l.buffer);
    if (!band) continue;
    const x0 = memory.x(l.first < 0 ? 0 : starts[l.first]);
    const x1 = Math.max(x0 + 1, memory.x(l.last < end ? ends[l.last] : 1));
    const top = y(band.to), full = y(band.from) - top, tall = Math.max(1, full - (full > 3 ? 1 : 0));
    if (x1 < memory.left || x0 > w) continue;
    memory.boxes.push({ l, x0, x1, top, tall });
    c.globalAlpha = find.terms.length && !l.nodes.some((i) => find.test(p.program[i].words)) ? 0.15 : 0.85;
    c.fillStyle = color(band.kind);
    c.fillRect(x0, top, Math.max(x1 - x0 - 0.5, 0.7), tall);
    c.globalAlpha = 1;
    if (l.nodes.includes(state.node)) {
      c.strokeStyle = color('text');
      c.lineWidth = 2;
      c.strokeRect(x0, top, Math.max(x1 - x0, 3), Math.max(tall, 3));
    }
    if (tall > 13) {
      const from = Math.max(x0, memory.left) + 5, [i] = l.nodes;
      c.fillStyle = color('panel');
      label(c, i >= 0 ? `%${i} ${p.program[i].op}` : band.kind, from, top + tall / 2 + 4, Math.min(x1, w) - from - 5);
    }
  }
  drawCurve(c, p, w, starts, ends);
  c.restore();
  drawAxes(c, p, w, h, y, total, shown);
}, {
  left: 74,
  find: (x, y) => y < CURVE ? { at: memory.share(x) }
    : memory.boxes.findLast((b) => x >= b.x0 && x <= b.x1 && y >= b.top - 1 && y <= b.top + b.tall + 1),
  over: (hit, e) => { if (hit) showTip(e, hit.l ? tipOfLife(hit.l) : tipOfUse(hit.at)); else hideTip(); },
  click: (hit) => { if (hit && hit.l && hit.l.nodes.length) select(hit.l.nodes[0]); },
});

function drawCurve(c, p, w, starts, ends) {
  const inUse = (i) => sum(Object.keys(p.use).map((k) => state.kinds[k] ? p.use[k][i] : 0)), base = CURVE - 6;
  const peak = p.blocks.reduce((a, b) => inUse(b.node) > inUse(a.node) ? b : a).node, most = inUse(peak) || 1;
  const x = memory.x(starts[peak]), text = `peak ${bytes(inUse(peak))} at %${peak}`;
  c.beginPath();
  c.moveTo(memory.x(0), base);
  for (const { node } of p.blocks) {
    for (const at of [starts[node], ends[node]]) c.lineTo(memory.x(at), base - inUse(node) / most * (base - 14));
  }
  c.lineTo(memory.x(1), base);
  c.fillStyle = c.strokeStyle = color('buffer');
  c.lineWidth = 1;
  c.stroke();
  c.globalAlpha = 0.3;
  c.fill();
  c.globalAlpha = 1;
  c.fillStyle = color('text');
  c.fillText(text, Math.max(memory.left + 4, Math.min(x + 4, w - c.measureText(text).width - 4)), 10);
  c.fillRect(x, 0, 1, base);
}

function drawAxes(c, p, w, h, y, total, shown) {
  c.fillStyle = color('dim');
  c.textAlign = 'right';
  c.fillText('in use', 66, CURVE / 2);
  if (state.layout === 'by bytes') {
    for (let k = 0; k <= 4; k++) c.fillText(bytes(total * k / 4), 66, y(total * k / 4) + (k ? 8 : 0));
  } else {
    let last = Infinity, named = 0;
    for (const b of shown) {
      const at = y((b.from + b.to) / 2) + 4;
      if (last - at < 14 || b.pool_bytes === named) continue;
      c.fillText(bytes(b.pool_bytes), 66, at);
      last = at;
      named = b.pool_bytes;
    }
  }
  const end = state.axis === 'time' ? time(p.time) : `${number(p.kernels.length)} launches`;
  c.fillText(memory.zoomed() ? `${percent(memory.from)} to ${percent(memory.to)} of ${end}` : end, w, h - 3);
  c.textAlign = 'left';
  c.fillText('0', memory.left, h - 3);
  c.fillRect(memory.left, h - 17, w, 1);
}

function tipOfLife(l) {
  const p = plan(), first = p.program[l.nodes[0]];
  const other = l.first < 0 ? 'what came from outside' : 'scratch of a launch';
  const holds = l.nodes.slice(0, 8).map((i) => `%${i} ${p.program[i].op}`).join(', ') || other;
  return [el('b', `${l.slot.kind} ${l.slot.number}`), pairs([['holds', holds], ['value', first && shapeOf(first)],
    ['bytes', `${bytes(l.bytes)} in a buffer of ${bytes(l.slot.pool_bytes)} on ${l.slot.device}`],
    ['from', l.first < 0 ? 'before the window' : `%${l.first}`],
    ['to', l.last < p.program.length ? `%${l.last}` : 'after the window'], ['at', first && shortSite(first)]])];
}

function tipOfUse(at) {
  const p = plan(), { ends } = axis(p), { node } = p.blocks.find((b) => ends[b.node] >= at) || p.blocks.at(-1);
  const rows = [['temporaries', 'buffer'], ['results', 'output'], ['inputs', 'input']];
  return [el('b', `in use at %${node}`), pairs(rows.map(([name, k]) => [name, bytes(p.use[k][node])]))];
}

// --- Hot spots

const columns = [['time', 'time', time], ['share', 'share', percent], ['launches', 'launches', number],
  ['bytes', 'moves', bytes], ['moved', 'B/s', byteRate], ['flops', 'computes', flops], ['computed', 'FLOP/s', flopRate],
  ['roof', 'of the roof', percent]];

/** Sums by operation, module or line. Where modules and lines are the keys, a group's nodes share its time equally. */
function hotRows(p) {
  const rows = new Map(), find = matcher(state.query);
  const keyOf = {
    module: (n) => moduleOf(n) || '(outside of modules)', line: (n) => data.sites[n.site].at || '(unknown)',
  }[state.by];
  for (const b of p.hottest.filter((x) => matches(x, find))) {
    const keys = keyOf ? b.members.map((i) => keyOf(p.program[i])) : [b.name];
    keys.forEach((key, i) => {
      const { text } = data.sites[p.program[b.members[i]].site], { node } = b;
      if (!rows.has(key)) rows.set(key, { key, text, node, time: 0, launches: 0, bytes: 0, flops: 0, least: 0 });
      const r = rows.get(key);
      for (const what of ['time', 'bytes', 'flops', 'least']) r[what] += b[what] / keys.length;
      if (keys.indexOf(key) === i) r.launches += b.launches.length;
    });
  }
  for (const r of rows.values()) {
    const rate = (n) => n / r.time || 0;
    const moved = rate(r.bytes * 1e6), computed = rate(r.flops * 1e6);
    Object.assign(r, { share: r.time / p.time, roof: rate(r.least), moved, computed });
  }
  return [...rows.values()].sort((a, b) => b[state.sort] - a[state.sort]);
}

function drawHot() {
  const rows = hotRows(plan()), shown = rows.slice(0, 500), line = state.by === 'line';
  const head = ([key, name]) => el('th', { onclick: () => { state.sort = key; refresh(); } },
    name, state.sort === key ? ' ↓' : '');
  const cell = (r, [key, , format], i) => el('td',
    { class: 'num', style: i ? '' : `background:rgba(var(--heat),${r.share / 2})` }, r[key] ? format(r[key]) : '–');
  const row = (r) => el('tr', { onclick: () => select(r.node) },
    el('td', { class: line ? 'mono' : '' }, r.key, line && el('div', { class: 'dim' }, r.text)),
    columns.map((column, i) => cell(r, column, i)));
  $('hot').replaceChildren(el('table', { class: 'list' },
    el('thead', el('tr', el('th', state.by), columns.map(head))), el('tbody', shown.map(row))),
  rows.length > 500 ? el('p', `${rows.length - 500} further rows: search to see them`) : '');
}
