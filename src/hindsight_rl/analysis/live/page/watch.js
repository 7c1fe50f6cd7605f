"use strict";

// Everything that comes from a run is put on the page as text; nothing is ever read as HTML.
const EVERY = 2500;
const cards = new Map();
const byId = (id) => document.getElementById(id);
let shown = [];

function make(tag, options = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) element[name] = value;
  element.append(...children);
  return element;
}

function draw(tag, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 3, notation: "compact" });
const number = (value) => (value === null ? "–" : value.toFixed(2));

function duration(seconds) {
  for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
    if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
  }
  return `${Math.max(0, Math.round(seconds))} s`;
}

// Round steps, about as many as there is room for.
function ticks(low, high, wanted) {
  const raw = (high - low) / wanted || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= raw);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) found.push(Math.abs(at) < step * 1e-9 ? 0 : at);
  return found;
}

const dashes = ["none", "8 3", "8 3 2 3", "4 2", "12 3 2 3 2 3"];
const placesOf = (series) => series.over[byId("over").value] || series.over.batches;

function chart(content, height) {
  const holder = make("div", { className: "chart" }, make("h3", { textContent: content.title }));
  const picture = draw("svg", { role: "img", "aria-label": content.title });
  holder.append(picture, legend(content));
  holder.redraw = () => paint(picture, content, holder.clientWidth || 320, height);
  return holder;
}

function legend(content) {
  const list = make("ul", { className: "legend" });
  content.series.forEach((series, index) => {
    const sample = draw("svg", { viewBox: "0 0 24 10", "aria-hidden": "true" });
    sample.append(draw("line", { x1: 0, y1: 5, x2: 24, y2: 5, class: `line c${index % 7}`, "stroke-dasharray": dashes[index % 5] }));
    list.append(make("li", {}, sample, `${series.name} (${series.runs} ${series.runs === 1 ? "run" : "runs"})`));
  });
  return list;
}

function paint(picture, content, width, height) {
  const all = content.series;
  const flat = (pick) => all.flatMap(pick);
  let [low, high] = [Math.min(...flat((one) => one.low)), Math.max(...flat((one) => one.high))];
  if (low >= 0 && low < high * 0.6) low = 0;
  if (low === high) [low, high] = [low - 0.5, high + 0.5];
  const end = Math.max(1, ...flat(placesOf));
  const [left, right, top, bottom] = [44, 10, 6, 22];
  const x = (value) => left + (value / end) * (width - left - right);
  const y = (value) => top + ((high - value) / (high - low)) * (height - top - bottom);
  picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const parts = [];
  for (const at of ticks(low, high, 4)) {
    parts.push(draw("line", { x1: left, x2: width - right, y1: y(at), y2: y(at), class: "grid" }));
    parts.push(draw("text", { x: left - 6, y: y(at) + 4, "text-anchor": "end" }, short.format(at)));
  }
  for (const at of ticks(0, end, Math.max(2, Math.floor(width / 110)))) {
    parts.push(draw("text", { x: x(at), y: height - 6, "text-anchor": at === 0 ? "start" : x(at) > width - 24 ? "end" : "middle" }, short.format(at)));
  }
  parts.push(draw("line", { x1: left, x2: width - right, y1: height - bottom, y2: height - bottom, class: "axis" }));
  all.forEach((series, index) => parts.push(...curve(series, index, x, y)));
  picture.replaceChildren(...parts);
}

function curve(series, index, x, y) {
  const where = placesOf(series);
  const path = (values) => values.map((value, place) => `${x(where[place]).toFixed(1)},${y(value).toFixed(1)}`);
  const band = [...path(series.high), ...path(series.low).reverse()].join(" ");
  const parts = [
    draw("polygon", { points: band, class: `band f${index % 7}` }),
    draw("polyline", { points: path(series.mean).join(" "), class: `line c${index % 7}`, "stroke-dasharray": dashes[index % 5] }),
  ];
  if (where.length === 1) parts.push(draw("circle", { cx: x(where[0]), cy: y(series.mean[0]), r: 4, class: `f${index % 7}` }));
  return parts;
}

function newCard(name) {
  const card = { name, open: false, version: null, films: new Map() };
  const line = (className) => make("p", { className });
  Object.assign(card, { title: make("h2"), state: make("span"), where: line("soft"), bar: make("progress"), numbers: line("numbers"), left: line("soft") });
  card.charts = make("div", { className: "charts" });
  card.more = make("div", { hidden: true });
  card.button = make("button", { type: "button", textContent: "Details" });
  card.button.addEventListener("click", () => toggle(card));
  card.button.setAttribute("aria-expanded", "false");
  card.filmBox = make("div", { className: "films" });
  card.noFilm = make("p", { className: "soft" });
  card.log = make("pre", { tabIndex: 0 });
  card.more.append(make("h3", { textContent: "Films, newest first" }), card.noFilm, card.filmBox, make("h3", { textContent: "Log" }), card.log);
  const head = make("div", { className: "head" }, card.title, card.state);
  card.element = make("article", {}, head, card.where, card.bar, card.numbers, card.left, card.charts, card.button, card.more);
  return card;
}

function fill(card, item) {
  card.item = item;
  card.title.textContent = item.name;
  card.state.textContent = item.state;
  card.state.className = `state ${item.state}`;
  card.where.textContent = [item.kind, item.method, item.environment].filter(Boolean).join(" · ");
  card.bar.max = Math.max(1, item.planned);
  card.bar.value = item.done;
  const unit = item.kind === "run" ? "batches" : "definitive runs";
  const age = duration(Date.now() / 1000 - item.changed);
  const numbers = item.kind === "run" ? `, return ${number(item.last_return)}, success ${number(item.success_rate)}` : "";
  card.numbers.textContent = `${item.done.toLocaleString("en")} of ${item.planned.toLocaleString("en")} ${unit}${numbers}, ${age} ago`;
  const pace = item.seconds_left === null ? "" : `, about ${duration(item.seconds_left)}`;
  card.left.textContent = item.state === "damaged" ? item.left : `Left to do: ${item.left}${pace}`;
  if (!card.open) show(card, item.charts, 150);
}

function show(card, charts, height) {
  const version = JSON.stringify(charts);
  if (version === card.version) return;
  card.version = version;
  card.charts.replaceChildren(...charts.map((one) => chart(one, height)));
  redraw(card);
}

function redraw(card) {
  for (const one of card.charts.children) one.redraw();
}

async function get(path) {
  const answer = await fetch(path, { cache: "no-store" });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

function toggle(card) {
  card.open = !card.open;
  card.element.classList.toggle("open", card.open);
  card.more.hidden = !card.open;
  card.button.textContent = card.open ? "Less" : "Details";
  card.button.setAttribute("aria-expanded", String(card.open));
  card.version = null;
  if (card.open) detail(card);
  else show(card, card.item.charts, 150);
}

async function detail(card) {
  try {
    const found = await get(`detail.json?name=${encodeURIComponent(card.name)}`);
    if (!card.open) return;
    show(card, found.charts, 190);
    const text = found.log.join("\n");
    if (card.log.textContent !== text) card.log.textContent = text;
    const hint = card.item.kind === "run" ? "No film yet: one of the newest policy may take a moment; hindsight render says why if none comes." : "A study has its films in its report.";
    card.noFilm.textContent = found.films.length ? "" : hint;
    films(card, found.films);
  } catch {
    card.noFilm.textContent = "This cannot be read at the moment.";
  }
}

// A film that has not changed keeps its element, so that it plays on.
function films(card, found) {
  const wanted = found.map((film) => `${film.file}/${film.version}`);
  if ([...card.films.keys()].join("\n") === wanted.join("\n")) return;
  const held = card.films;
  card.films = new Map(found.map((film, index) => [wanted[index], held.get(wanted[index]) || filmFigure(card, film)]));
  card.filmBox.replaceChildren(...card.films.values());
}

function filmFigure(card, film) {
  const source = `film?name=${encodeURIComponent(card.name)}&file=${encodeURIComponent(film.file)}&version=${film.version}`;
  const isVideo = film.file.toLowerCase().endsWith(".mp4");
  const options = isVideo ? { controls: true, loop: true, muted: true, preload: "metadata" } : { alt: `Film ${film.file}` };
  const picture = make(isVideo ? "video" : "img", { ...options, src: source });
  return make("figure", {}, picture, make("figcaption", { textContent: `${film.file}, ${duration(Date.now() / 1000 - film.version)} old` }));
}

const states = ["running", "finished", "stopped", "failed", "damaged"];
const orders = {
  age: (a, b) => b.changed - a.changed,
  name: (a, b) => a.name.localeCompare(b.name, "en", { numeric: true }),
  state: (a, b) => states.indexOf(a.state) - states.indexOf(b.state),
  return: (a, b) => (b.last_return ?? -Infinity) - (a.last_return ?? -Infinity) || 0,
};

function arrange() {
  const text = byId("filter").value.trim().toLowerCase();
  const fits = (item) => [item.name, item.kind, item.environment, item.method, item.state].join(" ").toLowerCase().includes(text);
  const wanted = shown.filter(fits).sort(orders[byId("sort").value]);
  for (const item of wanted) {
    if (!cards.has(item.name)) cards.set(item.name, newCard(item.name));
  }
  const elements = wanted.map((item) => cards.get(item.name).element);
  const held = [...byId("items").children];
  if (held.length !== elements.length || held.some((one, place) => one !== elements[place])) byId("items").replaceChildren(...elements);
  byId("nothing").hidden = wanted.length > 0;
  // Filled once they are on the page: a chart is as wide as its card.
  for (const item of wanted) fill(cards.get(item.name), item);
}

async function refresh() {
  const status = byId("status");
  try {
    const found = await get("overview.json");
    shown = found.items;
    const running = shown.filter((item) => item.state === "running").length;
    status.textContent = `Below ${found.folder}: ${shown.length} in all, ${running} running; read at ${new Date().toLocaleTimeString("en-GB")}.`;
    status.classList.remove("lost");
    arrange();
    for (const card of cards.values()) if (card.open) detail(card);
  } catch (error) {
    const silent = "hindsight watch does not answer: it was ended, or is busy.";
    status.textContent = `${error instanceof TypeError ? silent : error.message.trim()} What is below was read before.`;
    status.classList.add("lost");
  }
}

async function loop() {
  if (!document.hidden) await refresh();
  setTimeout(loop, EVERY);
}

byId("controls").addEventListener("submit", (event) => event.preventDefault());
byId("filter").addEventListener("input", arrange);
byId("sort").addEventListener("change", arrange);
const redrawAll = () => { for (const card of cards.values()) redraw(card); };
byId("over").addEventListener("change", redrawAll);
window.addEventListener("resize", redrawAll);
loop();
