// The page of a server of models: a text goes there, its entities come back.

import { request } from "./request.js";
import { colorOf, drawEntities, element, itemOf } from "./sentence.js";
import { load, save } from "./storage.js";

const byId = (id) => document.getElementById(id);
const NO_ANSWER = "The server does not answer. Start lacuner serve again, and open its new address.";

const LINES = 100; // in a request, unless the server takes fewer
const TOO_LARGE = 413;

let models = [];
let answer = null;
let asked = 0;

function notice(text, bad = false) {
  byId("notice").textContent = text;
  byId("notice").classList.toggle("bad", bad);
}

const chosen = () => models.find(({ name }) => name === byId("model").value) ?? models[0];

function showModel() {
  const { name, labels, nested } = chosen();
  byId("about").textContent = `${name}: ${labels.join(", ")}`;
  byId("nested-row").hidden = !nested;
  byId("nested").checked = byId("nested").checked && nested;
}

function show(text, colors) {
  const { entities } = answer;
  drawEntities(byId("shown"), itemOf(text, entities), colors);
  byId("rows").replaceChildren(...entities.map(({ start, end, label, text: words, score }) => element("tr", {},
    element("td", { dir: "auto" }, words),
    element("td", {}, element("span", { class: "swatch", "data-color": colorOf(label, colors) }, label)),
    element("td", {}, score === undefined ? "" : score.toFixed(4)),
    element("td", {}, `${start}–${end}`))));
  byId("found").hidden = false;
}

const ask = (texts, options) => request("/predict", { ...texts, ...options }, NO_ANSWER);

/** The answer for some lines, which are asked about in halves if they are more than the server takes. */
async function askTogether(texts, options) {
  try {
    return await ask({ texts }, options);
  } catch (error) {
    if (error.status !== TOO_LARGE || texts.length === 1) throw error;
    const half = texts.length >> 1;
    const first = await askTogether(texts.slice(0, half), options);
    const second = await askTogether(texts.slice(half), options);
    return { ...first, results: [...first.results, ...second.results] };
  }
}

/** The answer for a text whose lines are read one by one; offsets count characters of the whole text. */
async function askByLine(text, options) {
  const lines = text.split("\n");
  const entities = [];
  let begin = 0;
  let about = {};
  for (let first = 0; first < lines.length; first += LINES) {
    const texts = lines.slice(first, first + LINES);
    const { results, ...others } = await askTogether(texts, options);
    about = others;
    results.forEach((result, index) => {
      const moved = ({ start, end, ...entity }) => ({ start: begin + start, end: begin + end, ...entity });
      entities.push(...result.entities.map(moved));
      begin += Array.from(texts[index]).length + 1;
    });
  }
  return { ...about, entities };
}

async function find() {
  const text = byId("text").value;
  const { name, colors } = chosen();
  const number = ++asked; // a later request may be answered first
  notice("…");
  try {
    const options = { model: name, nested: byId("nested").checked, min_score: Number(byId("min-score").value) };
    const byLine = byId("lines").checked && text.includes("\n");
    const found = await (byLine ? askByLine(text, options) : ask({ text }, options));
    if (number !== asked) return;
    answer = found;
    show(text, colors);
    notice(`${found.entities.length} ${found.entities.length === 1 ? "entity" : "entities"}.`);
    save("text", text.slice(0, 10000));
  } catch (error) {
    if (number === asked) notice(error.message, true);
  }
}

async function copy() {
  try {
    await navigator.clipboard.writeText(`${JSON.stringify(answer, null, 2)}\n`);
    notice("Copied.");
  } catch {
    notice("The browser does not let this page copy.", true);
  }
}

async function start() {
  byId("form").addEventListener("submit", (event) => { event.preventDefault(); find(); });
  byId("text").addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); find(); } });
  byId("copy").addEventListener("click", copy);
  byId("model").addEventListener("change", showModel);
  byId("text").value = load("text") ?? "";
  try {
    ({ models } = await request("/models", undefined, NO_ANSWER));
  } catch (error) {
    notice(error.message, true);
    return;
  }
  byId("model").replaceChildren(...models.map(({ name }) => element("option", { value: name }, name)));
  byId("model-row").hidden = models.length === 1;
  showModel();
  document.body.dataset.ready = "yes";
}

start();
