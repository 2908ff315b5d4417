// Lanes over time on a canvas: zoom, pan, hover, and stage by stage with the keyboard.
const CLASSES = ["ingest", "query", "transfer"];
/** Their colours where stages are not kept one by one. */
const TONES = ["#56b4e9", "#009e73", "#cc79a7"];
const ROW = 46, BAR = 26, MARKS = 16, AXIS = 34, FACTOR = 1.6;

/** Class of a stage: as `Class::of` has it. */
const classOf = (detail, slices, i) => {
  const kind = detail.stage_kinds[slices.stage[i]];
  if (["import", "export", "reconstruct"].includes(kind)) return 2;
  if (["query_prefill", "decode"].includes(kind)) return 1;
  if (slices.query[i] === null) return 0;
  return kind === "custom" ? 1 : 2;
};

/** How often the colours have started again before a stream's: so many dark lines along the foot of its bars. */
const lapOf = (stream, colours) => Math.floor(stream / colours) % 4;
const LAP = "#010101";

/** What a stage took in or, of a decode, gave: with its unit. */
const sizeOf = (detail, slices, i) => {
  const kind = detail.stage_kinds[slices.stage[i]], size = slices.size[i];
  if (kind === "custom") return null;
  const text = `${size} ${kind === "encode" ? "frame" : "token"}${size === 1 ? "" : "s"}`;
  // How far it came is not known.
  return kind === "decode" && slices.failed.includes(i) ? `at most ${text}` : text;
};

class Timeline {
  constructor(run, view) {
    this.run = run;
    this.view = view;
    const { detail, data: { slices } } = run;
    // By lane, its stages by start: they never overlap, so their ends are sorted too.
    this.rows = detail.lanes.map(() => []);
    for (let i = 0; i < slices.lane.length; i++) this.rows[slices.lane[i]].push(i);
    for (const row of this.rows) row.sort((a, b) => slices.start[a] - slices.start[b]);
    this.cut = slices.total > slices.lane.length;
    this.kept = this.cut ? slices.start.reduce((most, start, i) => Math.max(most, start + slices.length[i]), 0) : Infinity;
    this.selected = null;
    this.canvas = element("canvas");
    this.node = element("div", {
      class: "timeline", tabIndex: 0, role: "group", "aria-roledescription": "timeline",
    }, this.canvas);
    this.listen();
  }

  get left() { return Math.min(110, this.width / 4); }
  x(ns) { return this.left + (ns - this.view.from) / (this.view.to - this.view.from) * (this.width - this.left - 8); }
  time(x) { return this.view.from + (x - this.left) / (this.width - this.left - 8) * (this.view.to - this.view.from); }
  top(lane) { return 6 + ROW * lane; }

  draw() {
    const { detail, data } = this.run;
    const slices = data.slices;
    this.width = this.node.clientWidth || 600;
    const height = this.top(detail.lanes.length) + AXIS;
    const scale = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(this.width * scale);
    this.canvas.height = Math.round(height * scale);
    this.canvas.style.height = `${height}px`;
    const context = this.canvas.getContext("2d");
    context.scale(scale, scale);
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const [ink, soft, line] = [colour("--ink"), colour("--soft"), colour("--line")];
    const hatches = patterns(context, colour("--hatch"));
    context.fillStyle = colour("--panel");
    context.fillRect(0, 0, this.width, height);
    context.font = "13px system-ui, sans-serif";
    context.textBaseline = "middle";
    this.axis(context, ink, line);
    context.save();
    context.beginPath();
    context.rect(this.left, 0, this.width - this.left, height);
    context.clip();
    let drawn = 0;
    const { streams } = this.view;
    const counts = { classes: CLASSES.map(() => 0), pale: 0 };
    // By lane, the queries that are shown, with whether a stage of theirs carries the label.
    const queries = this.rows.map(() => []);
    this.rows.forEach((row, lane) => {
      const y = this.top(lane) + MARKS;
      const first = lowerBound(row.length, (k) => slices.start[row[k]] + slices.length[row[k]], this.view.from);
      let free = -1;
      for (let k = first; k < row.length && slices.start[row[k]] < this.view.to; k++) {
        const i = row[k];
        const from = this.x(slices.start[i]), to = this.x(slices.start[i] + slices.length[i]);
        const shown = streams.has(slices.stream[i]);
        if (shown) counts.classes[classOf(detail, slices, i)]++;
        else counts.pale++;
        if (to - from < 1 && Math.floor(from) <= free) continue;
        free = Math.floor(from);
        const labelled = this.bar(context, i, from, Math.max(to, from + 1), y, hatches, ink, shown);
        drawn++;
        if (!shown || slices.query[i] === null) continue;
        const key = `${slices.stream[i]}/${slices.query[i]}`, last = queries[lane].at(-1);
        if (last?.key === key) Object.assign(last, { to, inside: last.inside || labelled, version: slices.version[i] });
        else queries[lane].push({ key, from, to, inside: labelled, version: slices.version[i] });
      }
      if (this.cut) this.shares(context, lane, y, soft);
    });
    const above = this.marks(context, ink, streams, queries);
    context.restore();
    this.node.setAttribute("aria-label", this.says(counts));
    this.node.dataset.from = this.view.from;
    this.node.dataset.to = this.view.to;
    this.node.dataset.drawn = drawn;
    this.node.dataset.queries = queries.flat().length;
    this.node.dataset.labelled = queries.flat().filter((query) => query.inside).length + above;
  }

  /** What is drawn, for those who cannot see it. */
  says({ classes, pale }) {
    const { detail, name } = this.run;
    const { from, to } = this.view;
    const counted = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
    const [ingest, queries, transfers] = classes;
    const parts = [
      `Timeline of ${name} from ${clock(from)} to ${clock(to)}: ` +
      `${counted(ingest + queries + transfers, "stage")} on ${counted(detail.lanes.length, "lane")}, ` +
      `${ingest} of ingest, ${queries} of queries, ${transfers} of transfers`,
    ];
    if (pale) parts.push(`pale, ${pale} of streams that are not chosen`);
    if (this.cut && to > this.kept) parts.push(`from ${clock(this.kept)} on, how busy each lane was`);
    return `${parts.join("; ")}.`;
  }

  /** Draws a stage; says whether it carries a label. */
  bar(context, i, from, to, y, hatches, ink, shown) {
    const { detail, data: { slices } } = this.run;
    const kind = classOf(detail, slices, i);
    let labelled = false;
    const alone = slices.alone[i] === null ? slices.length[i] : Math.min(slices.alone[i], slices.length[i]);
    context.fillStyle = this.view.colour(slices.stream[i]);
    context.globalAlpha = shown ? .35 : .08;
    context.fillRect(from, y, to - from, BAR);
    context.globalAlpha = shown ? 1 : .12;
    context.fillRect(from, y, Math.max(1, (to - from) * alone / Math.max(1, slices.length[i])), BAR);
    if (hatches[kind] && to - from > 3) {
      context.fillStyle = hatches[kind];
      context.fillRect(from, y, to - from, BAR);
    }
    context.fillStyle = LAP;
    for (let k = 0; k < this.view.lap(slices.stream[i]); k++) context.fillRect(from, y + BAR - 3 - 4 * k, to - from, 2);
    if (kind === 1 && shown) {
      const label = `v${slices.version[i]}`;
      const wide = context.measureText(label).width;
      if (wide + 6 < to - from) {
        context.lineWidth = 3;
        context.strokeStyle = "#fff";
        context.fillStyle = "#000";
        context.textAlign = "center";
        const middle = (Math.max(from, this.left) + Math.min(to, this.width)) / 2;
        context.strokeText(label, middle, y + BAR / 2);
        context.fillText(label, middle, y + BAR / 2);
        labelled = true;
      }
    }
    context.globalAlpha = 1;
    if (i === this.selected) {
      context.lineWidth = 3;
      context.strokeStyle = ink;
      context.strokeRect(from, y - 1, to - from, BAR + 2);
    }
    return labelled;
  }

  /** Busy shares where stages are not kept one by one. */
  shares(context, lane, y, soft) {
    const bins = this.run.data.series.busy[lane];
    const width = bins[0].width_ns;
    const most = Math.max(...bins.map((of) => of.mean.length));
    for (let bin = Math.max(0, Math.floor(Math.max(this.kept, this.view.from) / width)); bin < most; bin++) {
      const from = Math.max(bin * width, this.kept);
      if (from >= this.view.to) break;
      const [left, right] = [this.x(from), this.x((bin + 1) * width)];
      let base = y + BAR;
      bins.forEach((of, kind) => {
        const high = (of.mean[bin] || 0) * BAR * (of.width_ns === width ? 1 : 0);
        context.fillStyle = TONES[kind];
        context.fillRect(left, base - high, Math.max(1, right - left), high);
        base -= high;
      });
    }
    context.strokeStyle = soft;
    context.lineWidth = 1;
    const edge = this.x(this.kept);
    context.strokeRect(edge, y, Math.max(0, this.width - edge), BAR);
  }

  /** Triangles of versions, and labels above queries that are too narrow for them; how many of these fit. */
  marks(context, ink, streams, queries) {
    const versions = this.run.data.versions;
    const lanes = queries.map((list) => list.filter(({ inside }) => !inside).map(({ from, to, version }) => (
      { x: (Math.max(from, this.left) + Math.min(to, this.width)) / 2, version, stream: null })));
    for (let i = 0; i < versions.at.length; i++) {
      const lane = versions.lane[i], at = versions.at[i];
      if (lane === null || at < this.view.from || at > this.view.to || !streams.has(versions.stream[i])) continue;
      lanes[lane].push({ x: this.x(at), version: versions.version[i], stream: versions.stream[i] });
    }
    let above = 0;
    context.fillStyle = ink;
    lanes.forEach((marks, lane) => {
      marks.sort((a, b) => a.x - b.x);
      // Where the next triangle of each mark begins.
      let wall = this.width;
      for (const mark of marks.toReversed()) {
        mark.wall = wall;
        if (mark.stream !== null) wall = mark.x - 5;
      }
      const y = this.top(lane) + MARKS;
      let triangle = -Infinity, free = this.left;
      for (const { x, version, stream, wall } of marks) {
        const label = `v${version}`, wide = context.measureText(label).width;
        if (stream === null) {
          if (x - wide / 2 < free + 2 || x + wide / 2 > wall - 2) continue;
          context.fillStyle = ink;
          context.textAlign = "center";
          context.fillText(label, x, y - 7);
          free = x + wide / 2;
          above++;
          continue;
        }
        if (x < triangle + 3) continue;
        context.fillStyle = this.view.colour(stream);
        context.beginPath();
        context.moveTo(x - 5, y - 9);
        context.lineTo(x + 5, y - 9);
        context.lineTo(x, y - 1);
        context.fill();
        for (let k = 0; k < this.view.lap(stream); k++) context.fillRect(x - 5, y - 11 - 3 * k, 10, 1);
        if (x - 8 - wide > free) {
          context.fillStyle = ink;
          context.textAlign = "right";
          context.fillText(label, x - 7, y - 7);
        }
        triangle = free = x + 5;
      }
    });
    return above;
  }

  axis(context, ink, line) {
    const { detail } = this.run;
    const bottom = this.top(detail.lanes.length) + 2;
    context.textAlign = "right";
    detail.lanes.forEach((name, lane) => {
      const y = this.top(lane) + MARKS;
      const engine = detail.engines[detail.lane_engines[lane]];
      context.fillStyle = ink;
      context.fillText(name === engine ? name : `${name} (${engine})`, this.left - 8, y + BAR / 2, this.left - 12);
      context.fillStyle = line;
      context.fillRect(this.left, y + BAR, this.width, 1);
    });
    if (!this.run.data.end_ns) {
      context.fillStyle = ink;
      context.textAlign = "center";
      context.fillText("nothing ran", (this.left + this.width) / 2, bottom + 14);
      return;
    }
    const span = (this.view.to - this.view.from) / 1e9;
    const rough = span / Math.max(2, Math.floor((this.width - this.left) / 90));
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough);
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    for (let k = Math.ceil(this.view.from / 1e9 / step); k * step <= this.view.to / 1e9 + 1e-12; k++) {
      const x = this.x(k * step * 1e9);
      context.fillStyle = line;
      context.fillRect(x, this.top(0), 1, bottom - this.top(0) + 4);
      context.fillStyle = ink;
      context.textAlign = x > this.width - 30 ? "right" : "center";
      context.fillText(`${(k * step).toFixed(digits)} s`, x, bottom + 14);
    }
  }

  /** The stage at a point of the canvas, if any. */
  at(x, y) {
    const lane = Math.floor((y - 6) / ROW);
    const row = this.rows[lane];
    if (!row || x < this.left || y - this.top(lane) < MARKS - 4) return null;
    const { slices } = this.run.data;
    const slack = (this.view.to - this.view.from) / this.width;
    const k = lowerBound(row.length, (k) => slices.start[row[k]] + slices.length[row[k]], this.time(x) - slack);
    return k < row.length && slices.start[row[k]] <= this.time(x) + slack ? row[k] : null;
  }

  /** Everything that is known of a stage. */
  facts(i) {
    const { detail, data } = this.run;
    const s = data.slices;
    const pairs = [
      ["lane", `${detail.lanes[s.lane[i]]} on ${detail.engines[detail.lane_engines[s.lane[i]]]}`],
      ["stream", detail.streams[s.stream[i]]],
      [s.query[i] === null ? "makes" : "reads", `v${s.version[i]}`],
      ["start", clock(s.start[i])],
      ["end", clock(s.start[i] + s.length[i])],
      ["took", secs(s.length[i])],
    ];
    if (s.alone[i] !== null) {
      pairs.push(["alone", secs(s.alone[i])]);
      if (s.alone[i] > 0) pairs.push(["slowdown", `${short(s.length[i] / s.alone[i])} ×`]);
    }
    const size = sizeOf(detail, s, i);
    if (size) pairs.push(["size", size]);
    pairs.push(["context", `${s.context[i]} tokens`]);
    if (s.failed.includes(i)) pairs.push(["failed", "its lane went out of service"]);
    if (s.query[i] !== null) {
      const r = this.run.request(s.stream[i], s.query[i]);
      if (r !== null) pairs.push(...requestFacts(this.run, r));
    }
    const of = s.query[i] === null ? "" : ` of query ${s.query[i]}`;
    return [`${detail.stages[s.stage[i]]}${of}`, pairs];
  }

  show(i, x, y) {
    const tip = byId("tip");
    if (i === null) {
      tip.hidden = true;
      return;
    }
    const [title, pairs] = this.facts(i);
    tip.replaceChildren(element("strong", {}, title), listing(pairs));
    tip.hidden = false;
    // Its width depends on the room to the right of where it was.
    tip.style.left = "0";
    const box = this.node.getBoundingClientRect();
    const left = Math.min(box.left + x + 14, document.documentElement.clientWidth - tip.offsetWidth - 6);
    tip.style.left = `${Math.max(4, left) + window.scrollX}px`;
    tip.style.top = `${box.top + y + 18 + window.scrollY}px`;
  }

  /** Selects a stage, brings it into view and says it; with none, nothing stays shown or said. */
  select(i) {
    this.selected = i;
    if (i === null) {
      this.show(null);
      byId("live").textContent = "";
      this.draw();
      return;
    }
    const s = this.run.data.slices;
    const [from, to] = [s.start[i], s.start[i] + s.length[i]];
    if (from < this.view.from || to > this.view.to) {
      const span = Math.max(this.view.to - this.view.from, 1.2 * (to - from));
      this.view.set((from + to - span) / 2, (from + to + span) / 2);
    }
    this.view.draw();
    this.place();
    const [title, pairs] = this.facts(i);
    byId("live").textContent = `${title}: ${pairs.map((pair) => pair.join(" ")).join(", ")}`;
  }

  /** Shows the stage that is selected, if one is, where it is now. */
  place() {
    const i = this.selected;
    if (i === null) return;
    const s = this.run.data.slices;
    const [from, to] = [this.x(s.start[i]), this.x(s.start[i] + s.length[i])];
    const x = (Math.max(from, this.left) + Math.min(to, this.width)) / 2;
    this.show(i, x, this.top(s.lane[i]) + MARKS + BAR / 2);
  }

  /** Shows a stage to whoever asked for it elsewhere, and goes back there when it is left. */
  open(i, asked) {
    this.asked = asked;
    this.node.focus({ preventScroll: true });
    this.select(i);
  }

  /** Leaves the stage that is selected, if one is. */
  leave() {
    const asked = this.asked;
    this.asked = null;
    this.select(null);
    if (asked?.isConnected) asked.focus();
  }

  /** The next stage of a shown stream, by start, across lanes. */
  step(by) {
    if (!this.order) {
      const s = this.run.data.slices;
      this.order = s.start.map((_, i) => i).sort((a, b) => s.start[a] - s.start[b] || s.lane[a] - s.lane[b]);
      this.places = new Map(this.order.map((i, k) => [i, k]));
    }
    const s = this.run.data.slices;
    let k = this.selected === null
      ? lowerBound(this.order.length, (k) => s.start[this.order[k]], this.view.from) - (by > 0 ? 1 : 0)
      : this.places.get(this.selected);
    do k += by; while (k >= 0 && k < this.order.length && !this.view.streams.has(s.stream[this.order[k]]));
    if (k >= 0 && k < this.order.length) this.select(this.order[k]);
  }

  listen() {
    const node = this.node;
    const pointers = new Map();
    let moved = 0;
    const local = (event) => {
      const box = this.canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    node.addEventListener("pointerdown", (event) => {
      pointers.set(event.pointerId, [event.clientX, event.clientY]);
      moved = 0;
      node.setPointerCapture(event.pointerId);
    });
    // Whoever goes on elsewhere is not called back.
    node.addEventListener("blur", () => { this.asked = null; });
    node.addEventListener("pointermove", (event) => {
      const [x, y] = local(event);
      const before = pointers.get(event.pointerId);
      if (before === undefined) {
        this.show(this.at(x, y), x, y);
        return;
      }
      const perPixel = (this.view.to - this.view.from) / (this.width - this.left - 8);
      if (pointers.size === 2) {
        const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
        const apart = ([x, y]) => Math.max(8, Math.hypot(x - other[0], y - other[1]));
        const ratio = apart(before) / apart([event.clientX, event.clientY]);
        this.view.zoom(ratio, this.time(other[0] - this.canvas.getBoundingClientRect().left));
      } else {
        const by = event.clientX - before[0];
        moved += Math.abs(by);
        this.view.pan(-by * perPixel);
      }
      pointers.set(event.pointerId, [event.clientX, event.clientY]);
      this.show(null);
    });
    const end = (event) => {
      pointers.delete(event.pointerId);
      if (moved < 4 && event.type === "pointerup") {
        const [x, y] = local(event);
        const i = this.at(x, y);
        if (i !== null) this.select(i);
      }
    };
    node.addEventListener("pointerup", end);
    node.addEventListener("pointercancel", end);
    node.addEventListener("pointerleave", () => { if (this.selected === null) this.show(null); });
    node.addEventListener("dblclick", (event) => this.view.zoom(1 / FACTOR ** 2, this.time(local(event)[0])));
    node.addEventListener("wheel", (event) => {
      // A plain wheel scrolls the page, as everywhere else.
      if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return;
      event.preventDefault();
      const turn = event.deltaY || event.deltaX;
      this.view.zoom(turn < 0 ? 1 / FACTOR : FACTOR, this.time(local(event)[0]));
    }, { passive: false });
    node.addEventListener("keydown", (event) => {
      const span = this.view.to - this.view.from;
      const middle = (this.view.from + this.view.to) / 2;
      const act = {
        "+": () => this.view.zoom(1 / FACTOR, middle),
        "=": () => this.view.zoom(1 / FACTOR, middle),
        "-": () => this.view.zoom(FACTOR, middle),
        ArrowLeft: () => this.view.pan(-span / 5),
        ArrowRight: () => this.view.pan(span / 5),
        Home: () => this.view.reset(),
        n: () => this.step(1),
        p: () => this.step(-1),
        Escape: () => this.leave(),
      }[event.key];
      if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      act();
    });
  }
}

/** Fill patterns by class: lines for ingest, nothing for queries, crossed lines for transfers. */
const patterns = (context, colour) => [false, null, true].map((crossed) => {
  if (crossed === null) return null;
  const tile = element("canvas", { width: 8, height: 8 });
  const pen = tile.getContext("2d");
  pen.strokeStyle = colour;
  pen.lineWidth = 1.2;
  pen.beginPath();
  for (const shift of [-8, 0, 8]) {
    pen.moveTo(shift, 8);
    pen.lineTo(shift + 8, 0);
    if (crossed) {
      pen.moveTo(shift, 0);
      pen.lineTo(shift + 8, 8);
    }
  }
  pen.stroke();
  return context.createPattern(tile, "repeat");
});
