
// The page of torchlette.viz.plan.

const state = {
  plan: 0, tab: 'program', node: null, pass: 0, changed: false, inputs: false, query: '', by: 'operation', sort: 'time',
  axis: 'launches', layout: 'by bytes', kinds: { input: false, output: true, buffer: true },
};

// --- Data

const plan = () => data.plans[state.plan];
const nodeAt = (i) => i < 0 ? plan().inputs[-1 - i] : plan().program[i];
const nameOf = (i) => i < 0 ? `$${-1 - i}` : `%${i}`;
const shortSite = (n) => data.sites[n.site].at.replace(/^.*[\\/]/, '');
const moduleOf = (n) => (data.scopes[n.scope].at(-1) || '') + (n.backward ? ' backward' : '');
const shapeOf = (n) => `${n.dtype} [${n.shape.join(', ')}]`;
const isResult = (n) => / = result\{/.test(n.text); // a further result of the node that it reads

/** Names joined, with a count where one follows itself. */
function counted(names) {
  const runs = [];
  for (const name of names) {
    if (runs.length && runs.at(-1)[0] === name) runs.at(-1)[1]++; else runs.push([name, 1]);
  }
  return runs.map(([name, n]) => n > 1 ? `${n} ${name}` : name).join(' + ');
}

/** The least time of a launch, in microseconds, at the rates that its device was measured to reach. */
function least(k) {
  const roof = data.roofs[k.device];
  return roof ? 1e6 * Math.max(k.bytes / roof.bytes_per_s, (k.flops || 0) / roof.flops_per_s) : 0;
}

/** Adds blocks to a plan: the nodes that one node's launches compute. */
function prepare(p) {
  const blocks = new Map();
  const block = (node) => {
    const empty = { node, plan: p, launches: [], nodes: [], bytes: 0, flops: 0, least: 0, time: 0 };
    if (!blocks.has(node)) blocks.set(node, empty);
    return blocks.get(node);
  };
  p.timed = p.kernels.some((k) => k.microseconds !== undefined);
  p.kernels.forEach((k, i) => {
    const b = block(k.node);
    k.number = i;
    k.time = p.timed ? k.microseconds || 0 : least(k);
    b.launches.push(k);
    b.time += k.time;
    b.bytes += k.bytes;
    b.flops += k.flops || 0;
    b.least += least(k);
  });
  p.inputs.forEach((n) => { n.readers = []; });
  p.program.forEach((n, i) => {
    const site = data.sites[n.site];
    n.number = i;
    n.readers = [];
    n.reads = [...new Set(n.reads)];
    n.reads.forEach((r) => (r < 0 ? p.inputs[-1 - r] : p.program[r]).readers.push(i));
    n.block = block(n.computed_by);
    n.block.nodes.push(i);
    n.words = [n.text, n.op, site.at, site.text, data.scopes[n.scope].join('/'), moduleOf(n)].join(' ').toLowerCase();
  });
  p.blocks = [...blocks.values()].sort((a, b) => a.node - b.node);
  for (const b of p.blocks) {
    b.members = b.nodes.filter((i) => !isResult(p.program[i]));
    b.name = counted(b.members.map((i) => p.program[i].op));
    b.words = `${b.name} ${b.launches.map((k) => k.name).join(' ')}`.toLowerCase();
  }
  p.time = sum(p.blocks.map((b) => b.time)) || 1e-9;
  p.hottest = p.blocks.filter((b) => b.launches.length).sort((a, b) => b.time - a.time);
  p.most = p.hottest.length ? p.hottest[0].time || 1e-9 : 1e-9;
  prepareMemory(p);
}

/** Adds the bytes in use at each node, by kind of buffer. */
function prepareMemory(p) {
  const n = p.program.length;
  p.lives = p.lifetimes.filter((l) => l.buffer >= 0).map((l) => ({ ...l, slot: p.buffers[l.buffer] }));
  p.use = { input: new Float64Array(n + 1), output: new Float64Array(n + 1), buffer: new Float64Array(n + 1) };
  for (const l of p.lives) {
    l.nodes.forEach((i) => { p.program[i].life = l; });
    for (let i = Math.max(0, l.first); i <= Math.min(n - 1, l.last); i++) p.use[l.slot.kind][i] += l.slot.pool_bytes;
  }
  p.peak = Math.max(0, ...p.blocks.map((b) => p.use.output[b.node] + p.use.buffer[b.node]));
}

/** Rates of a block and their shares of the device's; null where nothing was measured. */
function rates(b) {
  const roof = b.launches.length && data.roofs[b.launches[0].device];
  if (!roof || !b.plan.timed || !b.time) return null;
  const moved = b.bytes / b.time * 1e6, computed = b.flops / b.time * 1e6;
  return { moved, computed, ofBytes: moved / roof.bytes_per_s, ofFlops: computed / roof.flops_per_s, roof };
}

/** The time of a block as text; that of a transfer is not measured. */
const timeOf = (b) => b.plan.timed && b.launches.every((k) => k.microseconds === undefined) ? '–' : time(b.time);

const matches = (b, find) => find.test(b.words) || b.nodes.some((i) => find.test(b.plan.program[i].words));

// --- Pieces

/** The line of a node: its operation in bold, its type dim. */
function lineOf(n, terms = []) {
  const parts = /^(\S+ = |)(\S+?)((?:\{| ).*)( : .*?)(?: live)?$/.exec(n.text) || [0, n.text, '', '', ''];
  const [, left, op, middle, type] = parts;
  return [...marked(left, terms), span('op', marked(op, terms)), ...marked(middle, terms),
    span('type', marked(type, terms))];
}

function links(list) {
  const one = (i) => el('a', { class: 'ref mono', onclick: () => select(i, true) }, nameOf(i));
  if (!list.length) return 'nothing';
  const more = list.length > 24 ? `and ${list.length - 24} more` : '';
  return el('span', list.slice(0, 24).flatMap((i) => [one(i), ' ']), more);
}

function workRows(b) {
  if (!b.launches.length) return [['launch', 'none: it needs no kernel']];
  const r = rates(b), of = (rate, share) => r ? `, ${rate} (${percent(share)} of the roof)` : '';
  return [['launch', b.launches.map((k) => k.name).join(', ')],
    ['time', `${timeOf(b)}${b.plan.timed ? '' : ' at least'}, ${percent(b.time / b.plan.time)} of the window`],
    ['moves', bytes(b.bytes) + of(r && byteRate(r.moved), r && r.ofBytes)],
    ['computes', b.flops ? flops(b.flops) + of(r && flopRate(r.computed), r && r.ofFlops) : '']];
}

function tipOf(i) {
  const n = nodeAt(i);
  if (i < 0) return [el('b', `${nameOf(i)} input`), pairs([['value', `${shapeOf(n)}, ${bytes(n.bytes)}`]])];
  return [el('b', `${nameOf(i)} ${n.op}`), span('dim', n.live ? ' held outside' : ''),
    pairs([['value', `${shapeOf(n)}, ${bytes(n.bytes)}`], ['at', shortSite(n)],
      ['line', span('mono', data.sites[n.site].text)], ['module', moduleOf(n)],
      ...workRows(n.block)])];
}

function tipOfBlock(b) {
  const n = nodeAt(b.node), nodes = b.nodes.slice(0, 12).map(nameOf).join(' ') + (b.nodes.length > 12 ? ' …' : '');
  const where = [['at', shortSite(n)], ['module', moduleOf(n)]];
  return [el('b', b.name), pairs([['nodes', nodes], ...workRows(b), ...where])];
}

// --- Header

function drawHeader() {
  const p = plan(), groups = p.blocks.filter((b) => b.members.length > 1 && b.launches.length);
  const moved = sum(p.blocks.map((b) => b.bytes)), computed = sum(p.blocks.map((b) => b.flops));
  const rate = (format, n) => p.timed ? format(n / p.time * 1e6) : '';
  const devices = [...new Set(p.kernels.map((k) => k.device))].join(', ');
  $('title').textContent = data.title;
  $('subtitle').textContent = `${devices} · plan ${p.number} · torchlette ${data.version}`;
  facts([
    [p.timed ? 'time on the device' : 'least time (none was measured)', time(p.time),
      p.timed_runs > 1 && `mean of ${p.timed_runs} runs`],
    ['nodes', number(p.program.length)], ['launches', number(p.kernels.length)],
    ['fusion groups', number(groups.length), groups.length && `of ${sum(groups.map((b) => b.members.length))} nodes`],
    ['moves', bytes(moved), rate(byteRate, moved)], ['computes', flops(computed), rate(flopRate, computed)],
    ['of the roof', p.timed ? percent(sum(p.blocks.map((b) => b.least)) / p.time) : '–'],
    ['peak of results and temporaries', bytes(p.peak), `inputs ${bytes(p.use.input[0])}`],
  ]);
}

function drawWindows() {
  const many = data.plans.length;
  $('window').hidden = many === 1 && !data.dropped;
  $('window').replaceChildren(...data.plans.map((p, i) => {
    const w = data.windows.find((x) => x.number === p.windows[0]);
    const nodes = `${p.program.length} nodes`, runs = p.windows.length > 1 ? `, ${p.windows.length} times` : '';
    return el('option', { value: i }, `Window ${i + 1} of ${many}: ${w ? w.why : ''}, ${nodes}${runs}`);
  }), data.dropped ? el('option', { disabled: true }, `${data.dropped} further windows are not shown`) : '');
  $('window').value = state.plan;
  $('window').onchange = (e) => { state.plan = +e.target.value; state.node = null; refresh(); e.target.blur(); };
}

const strip = new Chart($('strip').firstElementChild, (c, w, h) => {
  const p = plan(), find = matcher(state.query);
  let x = 0;
  p.strip = [];
  for (const b of p.blocks) {
    const width = b.time / p.time * w;
    p.strip.push(x + width);
    c.globalAlpha = matches(b, find) ? 1 : 0.2;
    c.fillStyle = `rgba(${color('heat')}, ${warmth(b.time / p.most)})`;
    c.fillRect(x, 0, Math.max(width - (width > 3 ? 1 : 0), 0.5), h);
    c.fillStyle = color('text');
    if (width > 34) label(c, b.name, x + 6, h / 2 + 4, width - 12);
    if (b.nodes.includes(state.node)) {
      c.fillStyle = color('accent');
      c.fillRect(x, 0, Math.max(width, 2), 4);
    }
    x += width;
  }
});
const stripBlock = (e) => plan().blocks[plan().strip.findIndex((x) => x > e.offsetX)];
strip.canvas.onpointermove = (e) => { const b = stripBlock(e); if (b) showTip(e, tipOfBlock(b)); };
strip.canvas.onpointerleave = hideTip;
strip.canvas.onclick = (e) => { const b = stripBlock(e); if (b) select(b.node, true); };

// --- Program

const programRows = new Rows($('program'), (r) => r.render(r));

function drawProgram() {
  const p = plan(), find = matcher(state.query), rows = [];
  const list = (items, share, open = true) => open && items.forEach((item, k) =>
    rows.push({ height: 22, ...item, last: k === items.length - 1, share, find }));
  const inputs = p.inputs.map((n, i) => ({ node: -1 - i, render: nodeRow }))
    .filter((r) => find.test(nodeAt(r.node).text.toLowerCase()));
  const open = state.inputs || find.terms.length > 0 || state.node !== null && state.node < 0;
  if (inputs.length) {
    const click = () => { state.inputs = !state.inputs; refresh(); };
    const title = `${open ? '▾' : '▸'} ${inputs.length} inputs`, note = bytes(p.use.input[0]);
    rows.push({ height: 30, closed: !open, title, note, click, render: titleRow });
    list(inputs, 0, open);
  }
  for (const b of p.blocks) {
    if (!matches(b, find)) continue;
    rows.push({ height: 38, gap: 10, block: b, render: headRow });
    list(b.nodes.map((node) => ({ node, render: nodeRow })), b.time / p.most);
  }
  if (p.stores.length && !find.terms.length) {
    const note = 'writes that outlive the window, in order';
    rows.push({ height: 38, gap: 10, title: `${p.stores.length} stores`, note, render: titleRow });
    list(p.stores.map((text) => ({ text, render: textRow })), 0);
  }
  programRows.set(rows);
}

const titleRow = (r) => el('div', { class: `row head${r.closed ? ' last' : ''}`, onclick: r.click },
  el('span', r.title), span('dim', r.note));

const textRow = (r) => el('div', { class: `row node mono${r.last ? ' last' : ''}` }, r.text);

function headRow({ block: b }) {
  const r = rates(b), share = b.time / plan().time, warm = warmth(b.time / plan().most), runs = b.launches.length;
  const best = r && (r.ofBytes >= r.ofFlops ? `${percent(r.ofBytes)} of B/s` : `${percent(r.ofFlops)} of FLOP/s`);
  const style = `--h:${warm};--b:${warm / 5}`;
  return el('div', { class: 'row head', style, onclick: () => select(b.node), ...hover(() => tipOfBlock(b)) },
    span('no', runs ? b.launches[0].number : ''),
    span('grow', b.name, runs ? '' : ' (no launch)'),
    runs > 1 && span('tag', `${runs} launches`),
    b.members.length > 1 && runs > 0 && span('tag', `group of ${b.members.length}`),
    span('num dim', best), span('num', runs ? timeOf(b) : ''),
    span('share', el('i', { style: `width:${100 * share}%` })),
    span('num dim pc', runs ? percent(share) : ''));
}

function nodeRow(r) {
  const n = nodeAt(r.node), chosen = state.node === null ? null : nodeAt(state.node);
  const related = !chosen ? '' : state.node === r.node ? ' selected'
    : chosen.reads && chosen.reads.includes(r.node) ? ' reads' : chosen.readers.includes(r.node) ? ' readers' : '';
  const where = r.node < 0 ? '' : [moduleOf(n), shortSite(n)].filter(Boolean).join(' · ');
  return el('div', { class: `row node${r.last ? ' last' : ''}${related}`, style: `--h:${r.share ? warmth(r.share) : 0}`,
    onclick: () => select(r.node), ...hover(() => tipOf(r.node)) },
  span('grow mono', lineOf(n, r.find.terms)), n.live && span('tag held', 'held'),
  span('where', marked(where, r.find.terms)));
}
