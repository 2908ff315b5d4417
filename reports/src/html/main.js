// Where each request's time went, the filters, and what ties them to the timelines.
const PARTS = ["waiting", "preparing", "slowdown", "service"];
const PAGE = 40;

const requestFacts = (run, r) => {
  const q = run.data.requests;
  const pairs = [["arrived", `${clock(q.arrived[r])}${early(run, r) ? ", in the warm-up" : ""}`]];
  if (q.refused[r] !== null) return [...pairs, ["refused", q.refused[r]]];
  pairs.push(["first token after", secs(q.ttft[r])], ["complete after", secs(q.ended[r] - q.arrived[r])]);
  for (const part of PARTS) pairs.push([part, secs(q[part][r])]);
  if (q.waiting_for_version[r]) pairs.push(["of it for the version", secs(q.waiting_for_version[r])]);
  pairs.push(["preparation", q.preparation[r].replaceAll("_", " ")]);
  pairs.push(["tokens", `${q.prompt[r]} in, ${q.output[r]} out`]);
  if (q.frames_behind[r] !== null) pairs.push(["frames behind", q.frames_behind[r]]);
  return pairs;
};

/** Whether a request came in the warm-up. */
const early = (run, r) => run.data.requests.arrived[r] < run.data.warm_up_ns;

/** A run with what is looked up in it. */
const prepared = (entry, details) => {
  const run = { ...entry, detail: details[entry.detail] };
  run.data = run.detail.runs[entry.run];
  let rows = null;
  run.request = (stream, index) => {
    if (!rows) {
      const q = run.data.requests;
      rows = new Map(q.stream.map((of, r) => [`${of}/${q.index[r]}`, r]));
    }
    return rows.get(`${stream}/${index}`) ?? null;
  };
  return run;
};

const start = () => {
  const data = JSON.parse(byId("data").textContent);
  const runs = data.runs.map((entry) => prepared(entry, data.details));
  if (!runs.length) return;
  const shownRuns = new Set(runs.slice(0, 2));
  /** Where the longest run that is shown ends; of all, where none is. */
  const lastOf = () => Math.max(...(shownRuns.size ? [...shownRuns] : runs).map((run) => run.data.end_ns), 1);
  let end = lastOf();
  const names = [...new Set(runs.flatMap((run) => run.detail.streams))];
  const shownNames = new Set(names);
  const colours = data.colours;
  let timelines = [];
  const view = {
    from: 0, to: end, streams: null, colour: null,
    set(from, to) {
      const span = Math.min(end, Math.max(1000, to - from));
      this.from = Math.max(0, Math.min(end - span, from));
      this.to = this.from + span;
    },
    zoom(ratio, around) {
      this.set(around - (around - this.from) * ratio, around + (this.to - around) * ratio);
      this.draw();
    },
    pan(by) { this.set(this.from + by, this.to + by); this.draw(); },
    reset() { this.set(0, end); this.draw(); },
    draw() { for (const timeline of timelines) timeline.draw(); },
  };
  // Streams go by name, so that the same one looks the same in every run.
  const viewOf = (run) => Object.create(view, {
    streams: { get: () => new Set(run.detail.streams.flatMap((name, i) => shownNames.has(name) ? [i] : [])) },
    colour: { value: (stream) => colours[names.indexOf(run.detail.streams[stream]) % colours.length] },
    lap: { value: (stream) => lapOf(names.indexOf(run.detail.streams[stream]), colours.length) },
    from: { get: () => view.from }, to: { get: () => view.to },
    set: { value: (from, to) => view.set(from, to) }, zoom: { value: (r, a) => view.zoom(r, a) },
    pan: { value: (by) => view.pan(by) }, reset: { value: () => view.reset() }, draw: { value: () => view.draw() },
  });
  for (const run of runs) run.view = viewOf(run);

  const panels = () => {
    end = lastOf();
    view.set(view.from, view.to);
    const box = byId("timelines");
    // What goes takes what it shows with it.
    for (const timeline of timelines) if (timeline.selected !== null && !shownRuns.has(timeline.run)) timeline.select(null);
    byId("tip").hidden = true;
    box.replaceChildren();
    timelines = runs.filter((run) => shownRuns.has(run)).map((run) => {
      run.timeline ??= new Timeline(run, run.view);
      box.append(element("h3", {}, run.name));
      if (run.timeline.cut) {
        box.append(element("p", { class: "soft" },
          `${run.data.slices.lane.length} of ${run.data.slices.total} stages are kept one by one, those up to ` +
          `${clock(run.timeline.kept)}; from there on the rows show how busy each lane was, by class, for all streams:`));
        box.append(element("ul", { class: "key" }, ...CLASSES.map((name, kind) => {
          const chip = element("span", { class: "chip", "aria-hidden": "true" });
          chip.style.background = TONES[kind];
          return element("li", {}, chip, name);
        }), element("li", {}, "blank: nothing ran")));
      }
      box.append(run.timeline.node);
      return run.timeline;
    });
    if (!timelines.length) box.append(element("p", { class: "soft" }, "No policy is chosen above, so that none is shown."));
    view.draw();
    for (const node of document.querySelectorAll("[data-run]")) node.hidden = !shownRuns.has(runs[Number(node.dataset.run)]);
    choices();
    requests();
  };

  const boxes = (id, title, items, change) => {
    const set = element("fieldset", { id }, element("legend", {}, title));
    for (const { name, on, colour, lap, value } of items) {
      const input = element("input", { type: "checkbox", checked: on });
      input.addEventListener("change", () => change(value, input.checked));
      const label = element("label", {}, input);
      if (colour) {
        const chip = element("span", { class: "chip" });
        chip.style.backgroundColor = colour;
        // As `laps` draws them over bars.
        chip.style.backgroundImage = Array(lap).fill(`linear-gradient(${LAP}, ${LAP})`).join(", ");
        chip.style.backgroundRepeat = "no-repeat";
        chip.style.backgroundSize = "100% 2px";
        chip.style.backgroundPosition = Array.from({ length: lap }, (_, k) => `0 calc(100% - ${1 + 4 * k}px)`).join(", ");
        label.append(chip);
      }
      label.append(element("span", {}, name));
      set.append(label);
    }
    return set;
  };
  /** A stage of a stream that is not shown is not selected either. */
  const hidden = () => {
    for (const timeline of timelines) {
      const { selected, run, view } = timeline;
      if (selected !== null && !view.streams.has(run.data.slices.stream[selected])) timeline.select(null);
    }
  };
  const toggle = (set, value, on) => { if (on) set.add(value); else set.delete(value); };
  const streamItems = names.map((name, i) => ({ name, on: true, colour: colours[i % colours.length], lap: lapOf(i, colours.length), value: name }));
  const runItems = runs.map((run) => ({ name: run.name, on: shownRuns.has(run), value: run }));
  byId("filters").append(
    boxes("streams", "Streams", streamItems, (name, on) => { toggle(shownNames, name, on); hidden(); view.draw(); requests(); }),
    boxes("runs", "Policies", runItems, (run, on) => { toggle(shownRuns, run, on); panels(); }),
  );
  const button = (id, text, title, act) => {
    const node = element("button", { type: "button", id, title }, text);
    node.addEventListener("click", act);
    return node;
  };
  const middle = () => (view.from + view.to) / 2;
  byId("zoom").append(
    button("zoom-in", "Zoom in", "+", () => view.zoom(1 / FACTOR, middle())),
    button("zoom-out", "Zoom out", "−", () => view.zoom(FACTOR, middle())),
    button("left", "←", "Earlier", () => view.pan((view.from - view.to) / 5)),
    button("right", "→", "Later", () => view.pan((view.to - view.from) / 5)),
    button("whole", "Whole run", "Home", () => view.reset()),
  );

  // Requests of one run.
  const which = byId("which"), order = byId("order"), body = byId("requests"), more = byId("more");
  let page = PAGE;
  const choices = () => {
    const before = which.value;
    which.replaceChildren();
    runs.forEach((run, i) => { if (shownRuns.has(run)) which.append(element("option", { value: i }, run.name)); });
    if ([...which.options].some((option) => option.value === before)) which.value = before;
  };
  const requests = () => {
    body.replaceChildren();
    const run = runs[Number(which.value)];
    byId("parts").hidden = !run;
    if (!run || which.value === "") return;
    const q = run.data.requests;
    const rows = q.stream.map((_, r) => r).filter((r) => run.view.streams.has(q.stream[r]));
    const took = (r) => q.ended[r] - q.arrived[r];
    if (order.value === "slowest") rows.sort((a, b) => took(b) - took(a));
    else rows.sort((a, b) => q.arrived[a] - q.arrived[b]);
    byId("count").textContent = q.stride > 1
      ? `Every ${q.stride}th of ${q.total} requests is kept; ${rows.length} are of the streams shown.`
      : `${rows.length} of ${q.total} requests are of the streams shown.`;
    const count = rows.filter((r) => early(run, r)).length;
    if (count) byId("count").textContent += ` ${count} of them came in the warm-up, which the means above leave out.`;
    const most = rows.reduce((most, r) => Math.max(most, took(r)), 1);
    for (const r of rows.slice(0, page)) body.append(requestRow(run, r, most));
    more.hidden = rows.length <= page;
  };
  const requestRow = (run, r, most) => {
    const q = run.data.requests;
    const name = `${run.detail.streams[q.stream[r]]} ${q.index[r]}`;
    const cell = (text) => element("td", {}, text);
    const go = button("", name, "Show it in the timeline", () => {
      const span = q.ended[r] - q.arrived[r];
      view.set(q.arrived[r] - span * .1, q.ended[r] + span * .1);
      view.draw();
      byId("zoom").scrollIntoView();
      const { slices } = run.data;
      const stage = slices.query.findIndex((query, i) => query === q.index[r] && slices.stream[i] === q.stream[r]);
      if (stage >= 0) run.timeline.open(stage, go);
    });
    go.removeAttribute("id");
    const row = element("tr", {}, element("td", {}, go), cell(`${clock(q.arrived[r])}${early(run, r) ? ", warm-up" : ""}`));
    if (q.refused[r] !== null) {
      row.append(element("td", { colSpan: 8, class: "text" }, `refused: ${q.refused[r]}`));
      return row;
    }
    const took = q.ended[r] - q.arrived[r];
    row.append(cell(secs(q.ttft[r])), cell(secs(took)));
    for (const part of PARTS) row.append(cell(secs(q[part][r])));
    row.append(cell(`v${q.version[r]} on ${run.detail.lanes[q.lane[r]]}`));
    const bar = element("div", { class: "parts", "aria-hidden": "true" });
    for (const part of PARTS) {
      const piece = element("i", { class: part });
      piece.style.width = `${100 * Math.max(0, q[part][r]) / most}%`;
      bar.append(piece);
    }
    row.append(element("td", {}, bar));
    return row;
  };
  which.addEventListener("change", requests);
  order.addEventListener("change", requests);
  more.addEventListener("click", () => { page += PAGE; requests(); });

  // At first as much as can be read; the whole run is a key away.
  const { slices } = runs[0].data;
  const legible = slices.start.slice(0, 60).reduce((most, at, i) => Math.max(most, at + slices.length[i]), 0);
  if (legible > 0) view.set(0, legible);
  panels();
  let waiting = 0;
  window.addEventListener("resize", () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => {
      byId("tip").hidden = true;
      view.draw();
      for (const timeline of timelines) timeline.place();
    });
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => view.draw());
  // For tests of this page: the routines that it shows numbers with.
  document.documentElement.dataset.ready = data.samples.map(([x, unit]) => quantity(x, unit)).join("|");
};
start();
