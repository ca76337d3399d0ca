// Micro-batches of a step as tokens of a Petri net, played in time: what `explain --pnml` writes, folded to a transition for every pass.
// A token waits before a pass until the pass before it has ended, lies in a box while it is computed, and is kept on the stage from the
// end of its forward pass to that of its backward pass.
(() => {
  'use strict';
  const ROW = 46, BOX = 30, RADIUS = 8, MOST_ROLES = 16, SECONDS_OF_PLAY = 12, TICKS = 1000;
  const data = JSON.parse(document.getElementById('data').textContent);
  const longest = Math.max(...data.traces.map(t => t.step));
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();

  // Every micro-batch's passes in the order in which they begin: [{role, body, begin, end}].
  function routesOf(roles) {
    const routes = new Map();
    roles.forEach((role, n) => {
      for (const pass of role.passes) {
        if (!routes.has(pass.microBatch)) routes.set(pass.microBatch, []);
        routes.get(pass.microBatch).push({role: n, body: pass.body, begin: pass.begin, end: pass.end});
      }
    });
    for (const route of routes.values()) route.sort((a, b) => a.begin - b.begin);
    return routes;
  }

  // Which tokens lie where at a time: of every role {waitsForward, inForward, kept, waitsBackward, inBackward}, and how many are through.
  function marking(roles, routes, time) {
    const places = roles.map(() => ({waitsForward: [], inForward: [], kept: [], waitsBackward: [], inBackward: []}));
    let done = 0;
    for (const [token, route] of routes) {
      const next = route.find(p => p.end > time);
      if (!next) ++done;
      else if (next.begin <= time) places[next.role][next.body === 'forward' ? 'inForward' : 'inBackward'].push(token);
      else places[next.role][next.body === 'forward' ? 'waitsForward' : 'waitsBackward'].push(token);
      roles.forEach((_, n) => {
        const own = route.filter(p => p.role === n);
        const ahead = own.filter(p => p.body === 'forward' && p.end <= time).length - own.filter(p => p.body === 'backward' && p.end <= time).length;
        for (let copies = 0; copies < ahead; ++copies) places[n].kept.push(token);
      });
    }
    for (const place of places) for (const tokens of Object.values(place)) tokens.sort((a, b) => a - b);
    return {places, done};
  }

  class Net {
    constructor(timeline, place) {
      this.title = timeline.trace.title;
      // Ranks that do the same in another time have the same micro-batches.
      this.roles = timeline.roles.filter(r => r.passes.length && !r.again).slice(0, MOST_ROLES);
      this.routes = routesOf(this.roles);
      this.canvas = document.createElement('canvas');
      this.canvas.setAttribute('role', 'img');
      place.append(this.canvas);
    }

    draw(time) {
      const {places, done} = marking(this.roles, this.routes, time), canvas = this.canvas, dots = window.devicePixelRatio || 1;
      const width = canvas.clientWidth, height = ROW * 3 + 24;
      canvas.style.height = height + 'px';
      canvas.width = Math.round(width * dots);
      canvas.height = Math.round(height * dots);
      const c = this.c = canvas.getContext('2d');
      c.scale(dots, dots);
      c.font = '11px system-ui, sans-serif';
      c.textBaseline = 'middle';
      c.textAlign = 'center';
      const step = width / this.roles.length;
      places.forEach((tokens, n) => this.drawRole(n, n * step, step, tokens));
      canvas.dataset.marking = JSON.stringify({places, done});
      canvas.setAttribute('aria-label', `${this.title}: ${done} of ${this.routes.size} micro-batches are through; ` +
        places.map((p, n) => `${this.roles[n].label} keeps ${p.kept.length}`).join(', '));
    }

    // Forward passes above, backward passes below, what is kept between them.
    drawRole(n, x, width, tokens) {
      const c = this.c, box = x + width * 0.6, half = Math.min(BOX, width * 0.22);
      c.fillStyle = colour('soft');
      let label = this.roles[n].label;
      while (label.length > 4 && c.measureText(label).width > width - 8) label = label.slice(0, -2).trimEnd() + '…';
      c.fillText(label, x + width / 2, 10);
      [['inForward', 'forward', 'waitsForward', ROW * 0.5], ['inBackward', 'backward', 'waitsBackward', ROW * 2.5]].forEach(([inside, name, waits, y]) => {
        c.strokeStyle = c.fillStyle = colour(name);
        c.lineWidth = tokens[inside].length ? 3 : 1;
        c.strokeRect(box - half, y + 24 - BOX / 2, 2 * half, BOX);
        this.drawTokens(tokens[inside], box, y + 24, half * 2, name);
        this.drawTokens(tokens[waits], x + width * 0.18, y + 24, width * 0.34, name);
      });
      c.lineWidth = 1;
      this.drawTokens(tokens.kept, x + width * 0.5, ROW * 1.5 + 24, width * 0.9, 'memory');
    }

    // As many circles as there is room for, with their numbers, and how many more there are.
    drawTokens(tokens, x, y, width, name) {
      const c = this.c, room = Math.max(1, Math.floor(width / (2 * RADIUS + 2))), shown = tokens.length > room ? tokens.slice(0, room - 1) : tokens;
      const count = shown.length + (shown.length < tokens.length ? 1 : 0);
      for (let i = 0; i < count; ++i) {
        const at = x + (i - (count - 1) / 2) * (2 * RADIUS + 2);
        c.fillStyle = colour(name);
        if (i < shown.length) {
          c.beginPath();
          c.arc(at, y, RADIUS, 0, 2 * Math.PI);
          c.fill();
        }
        c.fillStyle = colour(i < shown.length ? 'onbar' : 'soft');
        c.fillText(i < shown.length ? String(shown[i]) : '+' + (tokens.length - shown.length), at, y);
      }
    }
  }

  const nets = [];
  for (const place of document.querySelectorAll('.tokens')) {
    const {timeline} = document.getElementById(place.dataset.of).querySelector('canvas');
    if (timeline.roles.some(r => r.passes.length)) nets.push(new Net(timeline, place));
    else place.remove();
  }
  const clock = document.getElementById('clock'), button = document.getElementById('play');
  if (!nets.length) {
    clock.parentElement.remove();
    return;
  }

  let playing = false, before = 0, time = 0;
  function drawAll() {
    for (const net of nets) net.draw(time);
    document.dispatchEvent(new CustomEvent('clock', {detail: time}));
  }
  function set(to) {
    time = Math.min(Math.max(to, 0), longest);
    clock.value = time / longest * TICKS;
    drawAll();
  }
  function tick(now) {
    if (!playing) return;
    if (before) set(time + (now - before) / 1000 / SECONDS_OF_PLAY * longest);
    before = now;
    if (time >= longest) stop();
    else requestAnimationFrame(tick);
  }
  function stop() {
    playing = false;
    button.textContent = 'play';
  }
  button.addEventListener('click', () => {
    if (playing) return stop();
    if (time >= longest) set(0);
    playing = true;
    before = 0;
    button.textContent = 'pause';
    requestAnimationFrame(tick);
  });
  clock.addEventListener('input', () => set(clock.value / TICKS * longest));
  addEventListener('resize', drawAll);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawAll);
  set(0);
})();
