'use strict';
// What both pages share: formats, elements, the tooltip, themes, keys, rows that exist only while they are seen, and
// charts that zoom.

window.addEventListener('error', (e) => { document.documentElement.dataset.error = e.message; });

const data = JSON.parse(document.getElementById('data').textContent);
const $ = (id) => document.getElementById(id);
const sum = (list) => list.reduce((a, b) => a + b, 0);

// Formats. Times are in microseconds.
function number(v, digits = 3) {
  if (v === 0) return '0';
  const whole = Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(v))));
  return v.toLocaleString('en', { maximumFractionDigits: Math.min(whole, 3) });
}
function scaled(v, units, step) {
  let i = 0;
  while (Math.abs(v) >= step && i < units.length - 1) { v /= step; i++; }
  return `${number(v)} ${units[i]}`;
}
const time = (us) => us === undefined ? '–' : scaled(us * 1e3, ['ns', 'µs', 'ms', 's'], 1000);
const bytes = (n) => scaled(n, ['B', 'KiB', 'MiB', 'GiB', 'TiB'], 1024);
const flops = (n) => scaled(n, ['FLOP', 'kFLOP', 'MFLOP', 'GFLOP', 'TFLOP'], 1000);
const byteRate = (v) => scaled(v, ['B/s', 'kB/s', 'MB/s', 'GB/s', 'TB/s'], 1000);
const flopRate = (v) => scaled(v, ['FLOP/s', 'kFLOP/s', 'MFLOP/s', 'GFLOP/s', 'TFLOP/s'], 1000);
const percent = (v) => v === undefined ? '–' : `${v >= 0.0995 ? Math.round(v * 100) : number(v * 100, 2)}%`;

/** Makes an element; attributes come first, if any. Text is never parsed as HTML. */
function el(tag, ...children) {
  const node = document.createElement(tag), first = children[0];
  if (first && first.constructor === Object) {
    for (const [key, value] of Object.entries(children.shift())) {
      if (key.startsWith('on')) node[key] = value;
      else if (key === 'style') node.style.cssText = value;
      else node.setAttribute(key, value);
    }
  }
  node.append(...children.flat().filter((c) => c !== undefined && c !== null && c !== false));
  return node;
}

const span = (name, ...children) => el('span', { class: name }, ...children);

/** A table of names and values; rows without a value are left out. */
function pairs(rows) {
  return el('table', rows.filter(([, v]) => v !== undefined && v !== '')
    .map(([k, v]) => el('tr', el('td', k), el('td', v))));
}

function facts(list) {
  $('facts').replaceChildren(...list.map(([name, value, note]) =>
    el('div', el('dt', name), el('dd', value, note ? el('small', ' ' + note) : ''))));
}

// The tooltip.
const tip = $('tip');
function showTip(event, content) {
  tip.replaceChildren(...content);
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const x = event.clientX + 16 + box.width > innerWidth ? event.clientX - box.width - 12 : event.clientX + 16;
  const y = event.clientY + 16 + box.height > innerHeight ? event.clientY - box.height - 12 : event.clientY + 16;
  tip.style.left = `${Math.max(4, x)}px`;
  tip.style.top = `${Math.max(4, y)}px`;
}
const hideTip = () => { tip.hidden = true; };
const hover = (content) => ({ onpointermove: (e) => showTip(e, content()), onpointerleave: hideTip });

// Themes: the system's, until the user chooses.
const root = document.documentElement;
const redraws = [];
const colors = {};
function setTheme(name) {
  root.dataset.theme = name;
  Object.keys(colors).forEach((k) => delete colors[k]);
  for (const draw of redraws) draw();
}
const color = (name) => colors[name] ??= getComputedStyle(root).getPropertyValue(`--${name}`).trim();
const warmth = (share) => 0.06 + 0.89 * Math.sqrt(Math.min(1, share)); // the strength of the colour of a time
root.dataset.theme = location.hash.match(/theme=(light|dark)/)?.[1]
  || (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
$('theme').onclick = () => setTheme(root.dataset.theme === 'dark' ? 'light' : 'dark');
$('help').onclick = () => $('keys').showModal();
$('keys').onclick = () => $('keys').close();

/** Calls the function of a key, where the user does not type into a field. */
function onKeys(keys) {
  document.addEventListener('keydown', (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const search = $('search');
    if (e.key === 'Escape' && document.activeElement === search) {
      search.value = '';
      search.blur();
      search.dispatchEvent(new Event('input'));
      return;
    }
    if (e.target.matches('input, select')) return;
    const does = { '/': () => search.focus(), t: $('theme').onclick, '?': $('help').onclick, ...keys }[e.key];
    if (does) { e.preventDefault(); does(); }
  });
}

/** Terms of a search: all must be in the text. */
function matcher(query) {
  const terms = query.toLowerCase().split(/\s+/).filter(Boolean);
  return { terms, test: (text) => terms.every((t) => text.includes(t)) };
}

/** Text with the terms of a search marked. */
function marked(text, terms) {
  if (!terms.length) return [text];
  const escaped = terms.map((t) => t.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return text.split(new RegExp(`(${escaped.join('|')})`, 'i')).map((part, i) => i % 2 ? el('mark', part) : part);
}

/** Rows in a scrolling element; only those in view are in the document. */
class Rows {
  constructor(scroller, render) {
    this.scroller = scroller;
    this.render = render;
    this.body = el('div', { class: 'rows' });
    scroller.append(this.body);
    scroller.addEventListener('scroll', () => this.draw());
    new ResizeObserver(() => this.draw()).observe(scroller);
    this.set([]);
  }

  /** Takes rows, each with a height. */
  set(rows) {
    this.rows = rows;
    this.tops = new Float64Array(rows.length + 1);
    rows.forEach((r, i) => { this.tops[i + 1] = this.tops[i] + r.height; });
    this.body.style.height = `${this.tops[rows.length]}px`;
    this.draw();
  }

  at(y) {
    let low = 0, high = this.rows.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.tops[middle + 1] <= y) low = middle + 1; else high = middle;
    }
    return low;
  }

  draw() {
    const top = this.scroller.scrollTop - this.body.offsetTop;
    const first = this.at(top - 300), last = this.at(top + this.scroller.clientHeight + 300);
    const shown = [];
    for (let i = first; i <= last && i < this.rows.length; i++) {
      const row = this.render(this.rows[i], i);
      const gap = this.rows[i].gap || 0;
      row.style.top = `${this.tops[i] + gap}px`;
      row.style.height = `${this.rows[i].height - gap}px`;
      shown.push(row);
    }
    this.body.replaceChildren(...shown);
  }

  show(i) {
    const y = this.tops[i] + this.body.offsetTop, seen = this.scroller.scrollTop, room = this.scroller.clientHeight;
    if (y < seen + 30 || y > seen + room - 60) this.scroller.scrollTop = y - room / 3;
    this.draw();
  }
}

/** A canvas of the element's size; paint(context, width, height) draws it in CSS pixels. */
class Chart {
  constructor(canvas, paint) {
    this.canvas = canvas;
    this.paint = paint;
    new ResizeObserver(() => this.draw()).observe(canvas);
    redraws.push(() => this.draw());
  }

  draw() {
    const { clientWidth: w, clientHeight: h } = this.canvas;
    if (!w || !h) return;
    this.canvas.width = Math.round(w * devicePixelRatio);
    this.canvas.height = Math.round(h * devicePixelRatio);
    const context = this.canvas.getContext('2d');
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    context.clearRect(0, 0, w, h);
    context.font = `11px ${color('sans')}`;
    this.paint(context, w, h);
  }
}

/** A chart whose horizontal range [from, to] of [0, 1] the user zooms and moves. find(x, y) returns what is there. */
class ZoomChart extends Chart {
  constructor(canvas, paint, { left = 0, find, over, click }) {
    super(canvas, paint);
    Object.assign(this, { left, from: 0, to: 1, dragged: false });
    canvas.addEventListener('wheel', (e) => {
      if (e.shiftKey) return;
      e.preventDefault();
      this.zoom(Math.exp(e.deltaY * 0.002), this.share(e.offsetX));
    }, { passive: false });
    let start = null;
    canvas.onpointerdown = (e) => {
      start = [e.offsetX, this.from];
      this.dragged = false;
      canvas.setPointerCapture(e.pointerId);
    };
    canvas.onpointerup = () => { start = null; };
    canvas.onpointermove = (e) => {
      if (start && Math.abs(e.offsetX - start[0]) > 3) {
        this.dragged = true;
        const size = this.to - this.from;
        this.move(start[1] - (e.offsetX - start[0]) / (canvas.clientWidth - left) * size, size);
      }
      over(find(e.offsetX, e.offsetY), e);
    };
    canvas.onpointerleave = hideTip;
    canvas.onclick = (e) => { if (!this.dragged) click(find(e.offsetX, e.offsetY)); };
    canvas.ondblclick = () => this.reset();
  }

  x(share) { return this.left + (share - this.from) / (this.to - this.from) * (this.canvas.clientWidth - this.left); }

  share(x) { return this.from + (x - this.left) / (this.canvas.clientWidth - this.left) * (this.to - this.from); }

  move(from, size) {
    this.from = Math.max(0, Math.min(1 - size, from));
    this.to = this.from + size;
    this.draw();
  }

  zoom(by, at = (this.from + this.to) / 2) {
    const size = Math.max(1e-6, Math.min(1, (this.to - this.from) * by));
    this.move(at - (at - this.from) * size / (this.to - this.from), size);
  }

  reset() { this.move(0, 1); }

  zoomed() { return this.to - this.from < 1; }
}

/** Draws text in a box, cut to its width; nothing where there is no room. */
function label(c, text, x, y, room) {
  if (room < 18) return;
  const width = c.measureText(text).width;
  if (width > room) text = text.slice(0, Math.max(1, Math.floor(text.length * room / width) - 1)) + '…';
  c.fillText(text, x, y);
}
