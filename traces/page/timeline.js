// Timelines of training steps on canvases: one clock for all of them, zoomed and moved together.
(() => {
  'use strict';
  const data = JSON.parse(document.getElementById('data').textContent);
  const BODIES = ['prologue', 'forward', 'backward', 'update'];
  const HEIGHT = {compute: 22, memory: 26, messages: 12, host: 8}, GAP = 3, ROLE_GAP = 12, AXIS = 22, LEAST_SHARE = 1e-6;
  const longest = Math.max(...data.traces.map(t => t.step));
  // The same height is the same memory in every trace.
  const mostMemory = Math.max(0, ...data.traces.flatMap(t => t.roles.flatMap(r => r.memory.filter((_, i) => i % 2))));
  const view = {begin: 0, end: longest, messages: true, clock: null};
  const timelines = [];
  const hint = document.getElementById('hint');

  const colour = name => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();

  function timeText(ns) {
    const [factor, unit] = Math.abs(ns) >= 1e9 ? [1e9, 's'] : Math.abs(ns) >= 1e6 ? [1e6, 'ms'] : Math.abs(ns) >= 1e3 ? [1e3, 'us'] : [1, 'ns'];
    return `${+(ns / factor).toPrecision(4)} ${unit}`;
  }
  function amountText(value, unit) {
    const steps = ['', 'k', 'M', 'G', 'T', 'P'];
    let n = 0;
    while (value >= 1000 && n + 1 < steps.length) { value /= 1000; ++n; }
    return `${+value.toPrecision(3)} ${steps[n]}${unit}`;
  }

  // Events come as [begin behind the one before, duration, kind, micro-batch] in one flat list; a kind below 0 stands for several short
  // instructions of the body -1 - kind.
  function unpack(trace, lane) {
    const events = [];
    let begin = 0;
    for (let i = 0; i < lane.events.length; i += 4) {
      begin += lane.events[i];
      const kind = lane.events[i + 2];
      events.push({begin, end: begin + lane.events[i + 1], kind: kind < 0 ? null : trace.kinds[kind],
                   body: BODIES[kind < 0 ? -1 - kind : trace.kinds[kind].body], microBatch: lane.events[i + 3]});
    }
    return events;
  }

  // Memory comes as [begin behind the level before, bytes] in one flat list; a level lasts until the next.
  function levels(role, end) {
    const found = [];
    let begin = 0;
    for (let i = 0; i < role.memory.length; i += 2) {
      begin += role.memory[i];
      if (found.length) found[found.length - 1].end = begin;
      found.push({begin, end, bytes: role.memory[i + 1]});
    }
    return found;
  }

  // Times without an event of the lane: shaded as bubbles.
  function gaps(events, end) {
    const found = [];
    let at = 0;
    for (const e of events) {
      if (e.begin > at) found.push({begin: at, end: e.begin});
      at = Math.max(at, e.end);
    }
    if (end > at) found.push({begin: at, end});
    return found;
  }

  // Neighbours of one pass over one micro-batch, which get one number.
  function passes(events) {
    const found = [];
    for (const e of events) {
      const last = found[found.length - 1];
      if (last && last.body === e.body && last.microBatch === e.microBatch && (e.body === 'forward' || e.body === 'backward')) last.end = e.end;
      else found.push({begin: e.begin, end: e.end, body: e.body, microBatch: e.microBatch});
    }
    return found.filter(p => p.body === 'forward' || p.body === 'backward');
  }

  class Timeline {
    constructor(trace, place) {
      this.trace = trace;
      this.roles = trace.roles.map(role => {
        const lanes = role.lanes.map(lane => ({name: lane.name, events: unpack(trace, lane)}));
        const compute = lanes.find(l => l.name === 'compute'), memory = levels(role, trace.step);
        if (memory.length) lanes.splice(1, 0, {name: 'memory', events: memory, most: Math.max(...memory.map(l => l.bytes))});
        return {label: role.label, again: role.again, lanes, bubbles: compute ? gaps(compute.events, trace.step) : [], passes: compute ? passes(compute.events) : []};
      });
      this.canvas = document.createElement('canvas');
      this.canvas.tabIndex = 0;
      this.canvas.timeline = this;  // for the tokens
      this.canvas.setAttribute('role', 'img');
      this.canvas.setAttribute('aria-label', `timeline of ${trace.title}: wheel or + and - zoom, dragging or arrow keys move, 0 shows the whole step`);
      place.append(this.canvas);
      this.listen();
    }

    left() { return this.canvas.clientWidth < 600 ? 64 : 150; }
    scale() { return (this.canvas.clientWidth - this.left()) / (view.end - view.begin); }
    x(time) { return this.left() + (time - view.begin) * this.scale(); }
    time(x) { return view.begin + (x - this.left()) / this.scale(); }

    // Each lane that is shown, with its place.
    places() {
      const found = [];
      let y = AXIS;
      for (const role of this.roles) {
        const first = y;
        for (const lane of role.lanes) {
          if (lane.name !== 'compute' && lane.name !== 'memory' && !view.messages) continue;
          found.push({role, lane, y, height: HEIGHT[lane.name] || HEIGHT.messages});
          y += (HEIGHT[lane.name] || HEIGHT.messages) + GAP;
        }
        role.y = first;
        y += ROLE_GAP;
      }
      this.height = y;
      return found;
    }

    draw() {
      const shown = this.places(), dots = window.devicePixelRatio || 1, canvas = this.canvas;
      canvas.style.height = this.height + 'px';
      canvas.width = Math.round(canvas.clientWidth * dots);
      canvas.height = Math.round(this.height * dots);
      const c = this.c = canvas.getContext('2d');
      c.scale(dots, dots);
      c.font = '11px system-ui, sans-serif';
      c.textBaseline = 'middle';
      this.drawAxis();
      for (const place of shown) this.drawLane(place);
      this.drawLabels();
      this.drawClock();
    }

    // Where the tokens are in time.
    drawClock() {
      if (!(view.clock > view.begin && view.clock < view.end)) return;
      this.c.fillStyle = colour('ink');
      this.c.fillRect(this.x(view.clock), AXIS - 4, 1, this.height);
    }

    drawAxis() {
      const c = this.c, width = this.canvas.clientWidth, about = (view.end - view.begin) / Math.max(2, (width - this.left()) / 110);
      const power = 10 ** Math.floor(Math.log10(about)), every = [1, 2, 5, 10].map(f => f * power).find(f => f >= about);
      c.strokeStyle = colour('line');
      c.fillStyle = colour('soft');
      c.textAlign = 'center';
      for (let t = Math.ceil(view.begin / every) * every; t <= view.end; t += every) {
        const x = this.x(t);
        c.beginPath();
        c.moveTo(x, AXIS - 4);
        c.lineTo(x, this.height);
        c.stroke();
        if (x < width - 20) c.fillText(timeText(t), x, 9);
      }
    }

    drawLane({role, lane, y, height}) {
      const c = this.c, left = this.left(), width = this.canvas.clientWidth;
      c.save();
      c.beginPath();
      c.rect(left, y, width - left, height);
      c.clip();
      const fill = (span, style, least) => {
        if (span.end < view.begin || span.begin > view.end) return;
        const x = this.x(span.begin);
        c.fillStyle = style;
        c.fillRect(x, y, Math.max(this.x(span.end) - x, least), height);
      };
      if (lane.name === 'memory') {
        for (const level of lane.events) this.drawLevel(level, lane, y, height);
        c.restore();
        return;
      }
      if (lane.name === 'compute') for (const bubble of role.bubbles) fill(bubble, colour('idle'), 0);
      const styles = {message: colour('message'), host: colour('host')};
      for (const body of BODIES) styles[body] = colour(body);
      for (const e of lane.events) fill(e, lane.name === 'compute' ? styles[e.body] : lane.name === 'host' ? styles.host : styles.message, 0.4);
      if (lane.name === 'compute') this.drawNumbers(role, y, height);
      c.restore();
    }

    drawLevel(level, lane, y, height) {
      if (level.end < view.begin || level.begin > view.end) return;
      const c = this.c, x = this.x(level.begin), tall = Math.max(1, height * level.bytes / mostMemory);
      c.fillStyle = colour(level.bytes === lane.most ? 'fullest' : 'memory');
      c.fillRect(x, y + height - tall, Math.max(this.x(level.end) - x, 0.6), tall);
    }

    drawNumbers(role, y, height) {
      const c = this.c;
      c.textAlign = 'center';
      c.fillStyle = colour('onbar');
      for (const pass of role.passes) {
        const from = Math.max(this.x(pass.begin), this.left()), to = Math.min(this.x(pass.end), this.canvas.clientWidth), text = String(pass.microBatch);
        if (to - from > c.measureText(text).width + 4) c.fillText(text, (from + to) / 2, y + height / 2);
      }
    }

    drawLabels() {
      const c = this.c;
      c.textAlign = 'left';
      c.fillStyle = colour('ink');
      for (const role of this.roles) {
        let text = role.label;
        while (text.length > 4 && c.measureText(text).width > this.left() - 6) text = text.slice(0, -2).trimEnd() + '…';
        c.fillText(text, 0, role.y + HEIGHT.compute / 2);
      }
    }

    find(x, y) {
      const place = this.places().find(p => y >= p.y && y < p.y + p.height);
      if (!place || x < this.left()) return null;
      const time = this.time(x), slack = 1.5 / this.scale();
      let best = null;
      for (const e of place.lane.events)
        if (time >= e.begin - slack && time < e.end + slack && (!best || e.begin <= time)) best = e;
      if (best) return {place, event: best};
      const bubble = place.lane.name === 'compute' && place.role.bubbles.find(b => time >= b.begin && time < b.end);
      return bubble ? {place, bubble} : null;
    }

    describe({place, event, bubble}) {
      if (bubble) {
        const under = place.role.lanes.filter(l => l.name === 'messages').flatMap(l => l.events).filter(e => e.begin < bubble.end && e.end > bubble.begin);
        return `${place.role.label}\nnothing is computed for ${timeText(bubble.end - bubble.begin)}` +
               (under.length ? `\nmeanwhile on its way: ${[...new Set(under.map(e => e.kind ? e.kind.op : 'messages'))].join(', ')}` : '');
      }
      if (place.lane.name === 'memory')
        return `${place.role.label}\n${amountText(event.bytes, 'B')} of memory in use from ${timeText(event.begin)}` +
               (event.bytes === place.lane.most ? '\nthe most in this step' : `\nat most ${amountText(place.lane.most, 'B')} in this step`);
      const lines = [place.role.label], kind = event.kind;
      lines.push(kind ? `${kind.op}  ${kind.name}` : 'several short instructions');
      lines.push(`${event.body}, micro-batch ${event.microBatch}`, `${timeText(event.end - event.begin)} from ${timeText(event.begin)}`);
      if (kind && kind.kernel) lines.push(kind.kernel);
      if (kind && kind.flops) lines.push(`${amountText(kind.flops, 'FLOP')}, ${amountText(kind.flops / (event.end - event.begin) * 1e9, 'FLOP/s')}`);
      if (kind && kind.bytes) lines.push(`${amountText(kind.bytes, 'B')}, ${amountText(kind.bytes / (event.end - event.begin) * 1e9, 'B/s')}`);
      if (kind && kind.ranks) lines.push(`${kind.ranks} ranks`);
      return lines.join('\n');
    }

    listen() {
      const canvas = this.canvas;
      let dragged = null;
      canvas.addEventListener('wheel', e => {
        if (!e.ctrlKey && !e.metaKey && Math.abs(e.deltaX) > Math.abs(e.deltaY)) move(e.deltaX / this.scale());
        else zoom(Math.exp(e.deltaY * 0.002), this.time(e.offsetX));
        e.preventDefault();
      }, {passive: false});
      canvas.addEventListener('pointerdown', e => { dragged = e.clientX; canvas.setPointerCapture(e.pointerId); });
      canvas.addEventListener('pointerup', () => { dragged = null; });
      canvas.addEventListener('pointerleave', () => { hint.style.display = 'none'; });
      canvas.addEventListener('dblclick', () => show(0, longest));
      canvas.addEventListener('pointermove', e => {
        if (dragged !== null) {
          move((dragged - e.clientX) / this.scale());
          dragged = e.clientX;
          return;
        }
        const found = this.find(e.offsetX, e.offsetY);
        hint.style.display = found ? 'block' : 'none';
        if (!found) return;
        hint.textContent = this.describe(found);
        hint.style.left = Math.min(e.clientX + 14, window.innerWidth - hint.offsetWidth - 8) + 'px';
        hint.style.top = Math.min(e.clientY + 14, window.innerHeight - hint.offsetHeight - 8) + 'px';
      });
      canvas.addEventListener('keydown', e => {
        const middle = (view.begin + view.end) / 2, part = (view.end - view.begin) / 8;
        const actions = {'+': () => zoom(0.7, middle), '=': () => zoom(0.7, middle), '-': () => zoom(1.4, middle), '0': () => show(0, longest),
                         ArrowLeft: () => move(-part), ArrowRight: () => move(part), m: toggleMessages};
        if (!actions[e.key]) return;
        actions[e.key]();
        e.preventDefault();
      });
    }
  }

  function show(begin, end) {
    const span = Math.min(Math.max(end - begin, longest * LEAST_SHARE), longest);
    view.begin = Math.min(Math.max(begin, 0), longest - span);
    view.end = view.begin + span;
    drawAll();
  }
  function zoom(factor, around) { show(around - (around - view.begin) * factor, around + (view.end - around) * factor); }
  function move(by) { show(view.begin + by, view.end + by); }
  function toggleMessages() { view.messages = !view.messages; drawAll(); }

  let due = false;
  function drawAll() {
    if (due) return;
    due = true;
    requestAnimationFrame(() => {
      due = false;
      for (const t of timelines) t.draw();
      document.body.dataset.view = `${Math.round(view.begin)} ${Math.round(view.end)} ${view.messages}`;
    });
  }

  data.traces.forEach((trace, n) => timelines.push(new Timeline(trace, document.getElementById('timeline-' + n))));
  for (const button of document.querySelectorAll('.buttons button')) {
    const middle = () => (view.begin + view.end) / 2;
    const actions = {in: () => zoom(0.5, middle()), out: () => zoom(2, middle()), whole: () => show(0, longest), messages: toggleMessages};
    button.addEventListener('click', actions[button.dataset.does]);
  }
  addEventListener('resize', drawAll);
  document.addEventListener('clock', e => { view.clock = e.detail; drawAll(); });
  addEventListener('beforeprint', () => { for (const t of timelines) t.draw(); });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawAll);
  drawAll();
})();
