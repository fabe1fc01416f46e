"use strict";
{
  const $ = (selector, within = document) => within.querySelector(selector);
  const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];

  // The data are megabytes in a full run: read when first asked for.
  let read;
  const data = () => (read ??= JSON.parse($("#data").textContent));
  const at = (column, step) => (Array.isArray(column) ? column[step] : column);
  const shown = (value) => (value === null || value === undefined ? "–" : String(value).replace(/^-/, "−"));

  function element(name, content, attributes = {}) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...[content].flat().filter((part) => part !== null && part !== undefined));
    return made;
  }

  // --- theme: automatic, light, dark

  const themes = ["automatic", "light", "dark"];
  function remember(theme) {
    try {
      if (theme === undefined) return localStorage.getItem("banana100-theme");
      localStorage.setItem("banana100-theme", theme);
    } catch {
      return null; // a page from disk may have no storage
    }
  }
  function setTheme(theme) {
    if (theme === "automatic") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    $("#theme").textContent = `Theme: ${theme}`;
  }
  let theme = themes.includes(remember()) ? remember() : "automatic";
  setTheme(theme);
  $("#theme").addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    setTheme(theme);
    remember(theme);
  });

  // --- the table of verdicts, sorted by a click on a column's head

  function sortBy(header) {
    const column = header.dataset.column;
    const ascending = header.getAttribute("aria-sort") !== "ascending";
    for (const other of $$("#verdicts thead th")) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", ascending ? "ascending" : "descending");
    const value = (row) => $(`[data-column="${column}"]`, row).dataset.value;
    const numeric = column !== "metric";
    const key = (text) => (numeric ? Number(text.replace("inf", "Infinity")) : text);
    const body = $("#verdicts tbody");
    const rows = $$("tr", body).map((row, index) => ({ row, index, text: value(row) }));
    rows.sort((a, b) => {
      if (a.text === "" || b.text === "") return (a.text === "") - (b.text === "") || a.index - b.index; // missing last
      const [x, y] = [key(a.text), key(b.text)];
      const order = x < y ? -1 : x > y ? 1 : 0;
      return (ascending ? order : -order) || a.index - b.index;
    });
    body.append(...rows.map(({ row }) => row));
  }
  for (const header of $$("#verdicts thead th")) $("button", header).addEventListener("click", () => sortBy(header));

  // --- where an image or a score comes from

  const exists = (chain, step) => (at(chain.image_id, step) ?? null) !== null;
  const path = (chain, step) => `${at(chain.folder, step)}/${at(chain.file, step)}`;
  const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
  const facts = (rows) =>
    element("dl", rows.filter(([, value]) => value !== null && value !== undefined && value !== "")
      .flatMap(([name, value]) => [element("dt", name), element("dd", value instanceof Node ? value : String(value))]));

  function command(text) {
    const copy = element("button", "Copy", { type: "button" });
    const code = element("code", text);
    copy.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(text);
        copy.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(code); // not allowed here: then by hand
      }
    });
    return element("div", [code, copy], { class: "command" });
  }

  function scoreOf(metric, chainNumber, step) {
    const { scorer, scores, reasons, failed } = data().metrics[metric];
    const score = scores[chainNumber][step];
    const image = at(data().chains[chainNumber].image_id, step);
    const told = score === null ? `none: ${reasons[failed[image]] ?? "no reason is known"}` : shown(score);
    const weights = (scorer.parameters ?? "").split("; ").filter(Boolean);
    const digests = (scorer.parameters_sha256 ?? "").split("; ");
    return [
      element("h3", "Score"),
      facts([["metric", `${metric}, ${scorer.higher_is_better ? "higher" : "lower"} is better`], ["score", told]]),
      element("h3", "Scorer"),
      facts([
        ["scorer", scorer.scorer_id],
        ["versions", ["pyiqa " + scorer.pyiqa, "torch " + scorer.torch, scorer.libraries, scorer.precision].filter(Boolean).join(", ")],
        ...weights.map((name, index) => ["weights", `${name}, sha256 ${digests[index]}`]),
        ["licence", scorer.parameters_licence],
        ["preprocessing", scorer.preprocessing],
        ["source sha256", scorer.source_sha256],
      ]),
    ];
  }

  function requestOf(chain, step) {
    if (step === 0 || (at(chain.asked, step) ?? null) === null) return [];
    const asked = data().asked[at(chain.asked, step)];
    const simulated = asked.backend === "simulated" || (asked.model_answered ?? "").startsWith("simulated/");
    return [
      element("h3", "Request"),
      facts([
        ["request", `${at(chain.request_id, step)}…`],
        ["asked", `${asked.backend} ${asked.model}`],
        ["answered by", `${shown(asked.model_answered)}${simulated ? " (simulated: no model's answer)" : ""}`],
        ["prompt", asked.prompt],
        ["config", asked.config],
        ["asked at", at(chain.asked_at, step)],
        ["response", at(chain.response_id, step)],
        ["finish reason", at(chain.finish_reason, step)],
        ["attempts", at(chain.attempts, step)],
        ["tokens in, out", at(chain.input_tokens, step) === null ? null : `${at(chain.input_tokens, step)}, ${shown(at(chain.output_tokens, step))}`],
        ["cost", at(chain.cost_usd, step) ? `$${at(chain.cost_usd, step)}` : null],
      ]),
    ];
  }

  function parentsOf(chain, step) {
    const parents = [];
    for (let parent = step - 1; parent >= 0; parent -= 1) {
      if (!exists(chain, parent)) continue;
      parents.push(element("li", [`step ${parent}: `, element("code", `${at(chain.image_id, parent)}…`), ` ${path(chain, parent)}`]));
    }
    return parents.length ? [element("h3", "Parents"), element("ol", parents, { tabindex: "0", "aria-label": "Parents, nearest first" })] : [];
  }

  function seedOf(chain) {
    const seed = data().seeds[chain.seed];
    if (!seed) return [];
    return [
      element("h3", "Seed"),
      facts([
        ["seed", `${chain.seed}, ${seed.path}`],
        ["image", seed.image_id],
        ["origin", `${seed.source}: ${seed.origin}, ${seed.source_width}×${seed.source_height}`],
        ["sha256 of it", seed.source_sha256],
        ["licence", seed.licence],
      ]),
    ];
  }

  function trace(chainNumber, step, metric) {
    const chain = data().chains[chainNumber];
    const what = metric ? `${metric}:${path(chain, step)}` : path(chain, step);
    $("#trace-title").textContent = metric ? `Where a score by ${metric} comes from` : "Where an image comes from";
    $("#trace-body").replaceChildren(
      ...(metric ? scoreOf(metric, chainNumber, step) : []),
      element("h3", "Image"),
      facts([
        ["image", path(chain, step)],
        ["sha256", `${at(chain.image_id, step)}…`],
        ["chain", `step ${step} of seed ${chain.seed}, campaign ${chain.campaign}, repeat ${chain.repeat}`],
        ["size", `${at(chain.width, step)}×${at(chain.height, step)}, ${at(chain.bytes, step)} bytes`],
      ]),
      ...requestOf(chain, step),
      ...parentsOf(chain, step),
      ...seedOf(chain),
      element("p", "All of it, with params, the stages' hashes and the git revision:"),
      command(`banana100 trace ${quoted(what)}`),
    );
    $("#trace").showModal();
    $("#trace").scrollTop = 0;
  }
  for (const strip of $$(".strip")) {
    strip.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      const cell = button.closest("th, td");
      const step = Number($$(".frame", strip)[cell.cellIndex - 1].dataset.step);
      trace(Number(strip.dataset.chain), step, button.closest("tr").dataset.metric);
    });
  }

  // --- the curves: the chain nearest to the pointer, or chosen with arrow keys

  function plot(figure) {
    const [x0, dx, y0, dy] = figure.dataset.scale.split(" ").map(Number);
    const { scores, unit } = data().metrics[figure.dataset.metric];
    const baseline = Number($("#curves").dataset.baseline);
    const x = (step) => x0 + step * dx;
    const y = (chain, step) => {
      const [score, start] = [scores[chain][step], scores[chain][baseline]];
      return (score ?? null) === null || (start ?? null) === null ? null : y0 + ((score - start) / unit) * dy;
    };
    return { scores, steps: scores[0].length, x, y, stepAt: (place) => Math.round((place - x0) / dx) };
  }
  function nearest(figure, event) {
    const svg = $("svg", figure);
    const box = svg.getBoundingClientRect();
    const { width, height } = svg.viewBox.baseVal;
    const { scores, steps, y, stepAt } = plot(figure);
    const step = Math.max(0, Math.min(steps - 1, stepAt(((event.clientX - box.left) / box.width) * width)));
    const place = ((event.clientY - box.top) / box.height) * height;
    const far = (chain) => Math.abs(y(chain, step) - place);
    const known = scores.map((_, chain) => chain).filter((chain) => y(chain, step) !== null);
    return known.length ? { chain: known.reduce((best, chain) => (far(chain) < far(best) ? chain : best)), step } : null;
  }
  function point(figure, { chain, step }, left, top) {
    const { scores, steps, x, y } = plot(figure);
    const svg = $("svg", figure);
    if (!$("polyline", svg)) svg.append(document.createElementNS("http://www.w3.org/2000/svg", "polyline"));
    const places = [...Array(steps).keys()].filter((k) => y(chain, k) !== null).map((k) => `${x(k)},${y(chain, k)}`);
    $("polyline", svg).setAttribute("points", places.join(" "));
    const { seed, campaign, repeat } = data().chains[chain];
    const hover = $("#hover");
    hover.textContent = `${seed} · ${campaign} · repeat ${repeat} · step ${step}: ${figure.dataset.metric} ${shown(scores[chain][step])}`;
    hover.hidden = false;
    hover.style.left = `${Math.max(8, Math.min(left + 14, innerWidth - hover.offsetWidth - 8))}px`;
    hover.style.top = `${top + 18 + hover.offsetHeight > innerHeight ? top - hover.offsetHeight - 12 : top + 18}px`;
  }
  function leave(figure) {
    $("polyline", figure)?.remove();
    $("#hover").hidden = true;
  }
  const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  for (const figure of $$("#curves figure")) {
    let chosen = null;
    figure.addEventListener("pointermove", (event) => {
      chosen = nearest(figure, event);
      if (chosen) point(figure, chosen, event.clientX, event.clientY);
    });
    figure.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && !(event.key in moves)) return;
      event.preventDefault(); // the dialog's button would take the same Enter
      if (event.key === "Enter") {
        if (chosen) trace(chosen.chain, chosen.step, figure.dataset.metric);
        return;
      }
      const { scores, steps } = plot(figure);
      const [chains, forward] = chosen ? moves[event.key] : [0, 0];
      const within = (value, size) => (value + size) % size;
      const chain = within((chosen?.chain ?? 0) + chains, scores.length);
      let step = within((chosen?.step ?? 0) + forward, steps);
      while (!exists(data().chains[chain], step)) step = within(step + (forward || -1), steps); // the chain may be shorter
      chosen = { chain, step };
      const box = figure.getBoundingClientRect();
      point(figure, chosen, box.left, box.bottom - 40);
    });
    for (const gone of ["pointerleave", "blur"]) figure.addEventListener(gone, () => leave(figure));
    figure.addEventListener("click", (event) => {
      const found = nearest(figure, event);
      if (found) trace(found.chain, found.step, figure.dataset.metric);
    });
  }

  // --- two images of a chain: slider, amplified difference, native pixels

  const compare = $("#compare");
  const mode = () => $("input[name=mode]:checked").value;
  const strip = () => $(`.strip[data-chain="${$("#chain").value}"]`);
  const frame = (select) => $(`.frame[data-step="${$(select).value}"]`, strip());

  function offerSteps() {
    const steps = $$(".frame", strip()).map((button) => button.dataset.step);
    const baseline = $("#curves").dataset.baseline;
    const before = steps.includes(baseline) ? baseline : steps[0]; // what the filmstrips compare with
    for (const [id, chosen] of [["#before", before], ["#after", steps.at(-1)]]) {
      $(id).replaceChildren(...steps.map((step) => element("option", step, { value: step })));
      $(id).value = chosen;
    }
  }
  function original(step) {
    const relative = path(data().chains[Number(strip().dataset.chain)], step);
    return "../../" + relative.split("/").map(encodeURIComponent).join("/");
  }
  function show() {
    const native = mode() === "native";
    compare.dataset.mode = mode();
    for (const label of $$("[data-mode]", $(".controls"))) label.hidden = !label.dataset.mode.split(" ").includes(mode());
    $("#native-missing").hidden = true;
    for (const [select, image] of [["#before", "#before-image"], ["#after", "#after-image"]]) {
      const preview = $("img", frame(select));
      $(image).src = native ? original(Number($(select).value)) : preview.src;
      $(image).alt = preview.alt;
    }
    $("#stage-note").textContent = {
      slider: "Left of the divider: before; right: after.",
      difference: "How far the two previews lie apart, brightened: black is equal. Lossy previews hide the finest noise; native pixels show it.",
      native: "The original files, one pixel of theirs to one of the page, times the zoom. Left of the divider: before; right: after.",
    }[mode()];
    showScores();
    adjust();
  }
  function showScores() {
    const chain = Number(strip().dataset.chain);
    const [before, after] = [Number($("#before").value), Number($("#after").value)];
    const rows = Object.entries(data().metrics).map(([metric, { scores, unit }]) => {
      const [first, second] = [scores[chain][before], scores[chain][after]];
      const known = first !== null && second !== null;
      const change = known ? (second - first) / unit : 0;
      const says = !known ? "–" : change > 0 ? "▲ better" : change < 0 ? "▼ worse" : "= same";
      const wrong = change * (after - before) > 0; // the later image is called the better one
      return element("tr", [
        element("th", metric, { scope: "row" }), element("td", shown(first)), element("td", shown(second)),
        element("td", wrong ? element("b", says) : says, wrong ? { class: "wrong" } : {}),
      ]);
    });
    $("#compare-scores tbody").replaceChildren(...rows);
  }
  function adjust() {
    compare.style.setProperty("--divider", `${$("#divider").value}%`);
    compare.style.setProperty("--amplify", $("#amplify").value);
    compare.style.setProperty("--zoom", $("#zoom").value);
    $("output[for=amplify]").textContent = $("#amplify").value;
  }
  if ($("#chain").options.length) {
    compare.hidden = false;
    offerSteps();
    show();
    $("#chain").addEventListener("change", () => { offerSteps(); show(); });
    for (const id of ["#before", "#after"]) $(id).addEventListener("change", show);
    for (const radio of $$("input[name=mode]")) radio.addEventListener("change", show);
    for (const id of ["#divider", "#amplify", "#zoom"]) $(id).addEventListener("input", adjust);
    for (const image of $$(".layers img")) image.addEventListener("error", () => { $("#native-missing").hidden = mode() !== "native"; });
  }
}
