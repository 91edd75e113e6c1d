
// The page of torchlette.viz.timeline. Times are in microseconds since the first window began.

const { windows } = data, state = { at: null, query: '' };
const PHASES = [['record', 'Python and recording'], ['key', 'finding the plan'], ['plan', 'building a plan'],
  ['run', 'running'], ['wait', 'waiting for the device']];

// A step ends with mark_step or, where few steps do, with stores and the reads after them that record little.
const marks = windows.filter((w, i) => i && w.epoch !== windows[i - 1].epoch).length;
const byMark = 2 * marks >= windows.filter((w) => w.why === 'stores').length;
let steps = 1, stored = null;
windows.forEach((w, i) => {
  const before = windows[i - 1], us = (ns) => ns / 1e3, at = (ns) => us(ns - windows[0].start_ns);
  w.recorded = before ? w.nodes_recorded - before.nodes_recorded : w.nodes;
  w.begins = before && (byMark ? w.epoch !== before.epoch : stored && 4 * w.recorded > stored.recorded);
  if (w.begins) { steps++; stored = null; }
  if (w.why === 'stores') stored = w;
  w.step = steps;
  w.start = at(w.start_ns);
  w.end = at(w.end_ns) + us(w.wait_ns);
  w.from = before ? Math.min(before.end, w.start) : w.start;
  const fused = w.plan_ns > 1e5; // a known plan was built again with its fusion groups
  const build = w.built_because || fused ? us(w.plan_ns) : 0;
  w.phases = [w.start - w.from, us(w.key_ns), build, us(w.run_ns), us(w.wait_ns)];
  w.devices = (w.device || []).map((d) => ({ name: d.device, start: at(d.start_ns), time: us(d.busy_ns) }));
  w.busy = sum(w.devices.map((d) => d.time));
  w.how = w.built_because ? 'built' : 'replayed';
  w.words = `window ${w.number} step ${w.step} ${w.why} plan ${w.plan} ${w.how} ${w.built_because}`.toLowerCase();
});
const lanes = ['host', ...new Set(windows.flatMap((w) => w.devices.map((d) => d.name)))];
const end = Math.max(...windows.map((w) => w.end), 1e-3);

const tipOf = (w) => [el('b', `window ${w.number}`), span('dim', ` in step ${w.step}`), pairs([
  ['why', w.why], ['plan', `${w.plan}, ${w.how}`], ['nodes', `${number(w.nodes)} in ${number(w.kernels)} launches`],
  ['recorded before', `${number(w.recorded)} nodes`],
  ...PHASES.map(([, name], k) => [name, w.phases[k] && time(w.phases[k])]), 
  ...w.devices.map((d) => [`on ${d.name}`, time(d.time)]), ['wrote', bytes(w.bytes_written)],
  ['built because', w.built_because]])];

/** Sums of the windows in view. */
function overview() {
  const seen = windows.filter((w) => w.end > chart.from * end && w.from < chart.to * end);
  const span = sum(seen.map((w) => w.end - w.from)) || 1, busy = sum(seen.map((w) => w.busy));
  const total = (k) => sum(seen.map((w) => w.phases[k]));
  const rows = PHASES.map(([, name], k) => [name, `${percent(total(k) / span)}, ${time(total(k))}`]);
  const note = 'On the CPU, running is the time on the device. A GPU’s is known of profiled windows.';
  return [el('h2', `${number(seen.length)} windows in view`), pairs([['time', time(span)],
    ['steps', number(new Set(seen.map((w) => w.step)).size)], ...rows, ['device', busy ? time(busy) : '']]),
  el('p', { class: 'dim' }, note)];
}

function drawDetails() {
  $('details').replaceChildren(...(state.at === null ? overview() : tipOf(windows[state.at])));
}

const chart = new ZoomChart($('lanes').firstElementChild, (c, width) => {
  const find = matcher(state.query), bottom = 30 + 34 * lanes.length;
  const box = (from, to, y, h) => {
    const x = chart.x(from / end);
    c.fillRect(x, y, Math.max(chart.x(to / end) - x, 0.6), h);
  };
  c.fillStyle = color('dim');
  lanes.forEach((name, k) => c.fillText(name, 0, 33 + 34 * k));
  c.fillText(time(chart.from * end), chart.left, bottom);
  c.textAlign = 'right';
  c.fillText(time(chart.to * end), width, bottom);
  c.textAlign = 'left';
  c.save();
  c.beginPath();
  c.rect(chart.left, 0, width, bottom);
  c.clip();
  let last = -99;
  windows.forEach((w, i) => {
    c.globalAlpha = find.test(w.words) ? 1 : 0.15;
    let at = w.from;
    w.phases.forEach((t, k) => {
      c.fillStyle = color(PHASES[k][0]);
      box(at, at + t, 16, 26);
      at += t;
    });
    c.fillStyle = color('device');
    for (const d of w.devices) box(d.start, d.start + d.time, 16 + 34 * lanes.indexOf(d.name), 26);
    c.fillStyle = color('text');
    if (state.at === i) box(w.start, w.end, 43, 3);
    const x = chart.x(w.from / end);
    if (!w.begins || x - last < 5) return;
    c.fillRect(x, 6, 0.7, 36);
    if (x - last < 50) return;
    c.fillText(`step ${w.step}`, x + 3, 11);
    last = x;
  });
  c.restore();
  drawDetails();
}, {
  left: 60,
  find: (x) => windows.find((w) => w.end >= chart.share(x) * end),
  over: (w, e) => { if (w) showTip(e, tipOf(w)); else hideTip(); },
  click: (w) => { if (w) select(windows.indexOf(w)); },
});
chart.canvas.style.height = `${36 + 34 * lanes.length}px`;

const cell = (text) => span('num', text);
const titles = ['window', 'step', 'nodes', 'launches', ...PHASES.map(([name]) => name), 'device'];
const rows = new Rows($('windows'), (r) => {
  if (r.at === undefined) return el('div', { class: 'row win title' }, titles.map(cell), el('span', 'why it ran'));
  const w = windows[r.at], chosen = state.at === r.at ? ' selected' : '';
  return el('div', { class: `row win${chosen}`, onclick: () => select(r.at), ...hover(() => tipOf(w)) },
    [w.number, w.step, w.nodes, w.kernels].map((n) => cell(number(n))),
    [...w.phases, w.busy].map((t) => cell(t ? time(t) : '')),
    span('grow', w.why, ` · plan ${w.plan}`, w.built_because && ` · built: ${w.built_because}`));
});

function select(i) {
  state.at = state.at === i ? null : i;
  refresh();
  rows.show(Math.max(0, rows.rows.findIndex((r) => r.at === i)));
}

function move(by) {
  const list = rows.rows.slice(1).map((r) => r.at), at = list.indexOf(state.at), next = at < 0 ? 0 : at + by;
  if (list[next] !== undefined) select(list[next]);
}

function refresh() {
  const find = matcher(state.query);
  hideTip();
  rows.set([{ height: 26 }, ...windows.flatMap((w, at) => find.test(w.words) ? [{ height: 24, at }] : [])]);
  chart.draw();
}

$('title').textContent = data.title;
$('subtitle').textContent = `the last ${windows.length} windows · torchlette ${data.version}`;
facts([['time', time(end)], ['steps', number(steps), `${time(end / steps)} each`], ['windows', number(windows.length)],
  ['plans built', number(windows.filter((w) => w.built_because).length)]]);
const keys = [...PHASES, ...(lanes.length > 1 ? [['device', 'device, where profiled']] : [])];
$('options').append(...keys.map(([p, name]) =>
  span('key', el('i', { style: `background:var(--${p})` }), name)));
$('search').placeholder = 'Search: read, built, plan 3  ( / )';
$('search').oninput = (e) => { state.query = e.target.value; refresh(); };
onKeys({
  j: () => move(1), k: () => move(-1), '+': () => chart.zoom(0.7), '-': () => chart.zoom(1.4), 0: () => chart.reset(),
});
refresh();
root.dataset.ready = 'timeline';
