// The page: shows one item at a time, and takes decisions about it.

import { api } from "./api.js";
import * as messages from "./messages.js";
import { NO_ENTITY, colorOf, draw, element, freeColor, labelName, listen } from "./sentence.js";
import { load, save } from "./storage.js";

const byId = (id) => document.getElementById(id);
const STATUSES = ["open", "skipped", "accepted", "rejected"];
const KINDS = ["missing", "label", "boundary"];
const HEARTBEAT = 20_000; // milliseconds between messages that somebody still looks at the item
const IDLE = 300_000; // milliseconds without a key or a click after which the item is free for others
const DOUBLE_CLICK = 400; // milliseconds; nobody has read an item in so short a time
const PACE_WINDOW = 20; // decisions from which the reviewer's pace is estimated

let labels = [];
let colors = {}; // label → number
let estimate = null;
let counts = [];
let filter = { status: "open", label: null, kind: null };
let item = null;
let span = null; // start, end and label that would be accepted
let busy = false;
let conflicting = false;
let shownAt = 0;
let activeAt = performance.now();
const durations = []; // seconds that the last decisions took

// ---------------------------------------------------------------- showing

function notice(text, bad = false) {
  byId("notice").textContent = text;
  byId("notice").classList.toggle("bad", bad);
}

function option(value, text, chosen) {
  const made = element("option", { value }, text);
  made.selected = chosen;
  return made;
}

function showCounts() {
  const { text, fraction } = messages.progress(counts);
  byId("progress").textContent = text;
  byId("bar").value = fraction;
  byId("bar").textContent = messages.percent(fraction);
  const sorted = [...durations].sort((one, other) => one - other);
  const { list, beyond } = messages.remaining(counts, estimate, durations.length < 5 ? null : sorted[sorted.length >> 1]);
  byId("left").textContent = list;
  byId("left-beyond").textContent = beyond;
  const fits = (count, ignored) => ["status", "kind", "label"].every((key) => key === ignored || filter[key] === null || count[key] === filter[key]);
  const choices = (id, values, all, name) => {
    const counted = values.map((value) => [value, messages.total(counts, (count) => count[id] === value && fits(count, id))]);
    const options = counted.map(([value, total]) => option(value, `${name(value)} (${messages.number(total)})`, filter[id] === value));
    byId(id).replaceChildren(...(all ? [option("", all, filter[id] === null)] : []), ...options);
  };
  const found = new Set(counts.map((count) => count.label));
  choices("status", STATUSES, null, (status) => status);
  choices("kind", KINDS.filter((kind) => counts.some((count) => count.kind === kind)), "all kinds", (kind) => kind);
  choices("label", [...labels, NO_ENTITY].filter((label) => found.has(label)), "all labels", labelName);
}

const other = element("button", { type: "button", class: "quiet", "data-color": "none", id: "other-button" }, "other… ", element("kbd", {}, "L"));

function showLabels() {
  const button = (label, key) => {
    const made = element("button", { type: "button", "data-color": colorOf(label, colors), "data-label": label }, labelName(label));
    if (key !== null) made.append(" ", element("kbd", {}, key));
    made.addEventListener("click", () => choose(label));
    return made;
  };
  byId("labels").replaceChildren(...labels.map((label, index) => button(label, index < 9 ? String(index + 1) : null)), button(NO_ENTITY, "0"), other);
  byId("known-labels").replaceChildren(...labels.map((label) => element("option", { value: label })));
}

function showSpan() {
  draw(byId("sentence"), item, span, colors);
  for (const button of byId("labels").querySelectorAll("[data-label]")) button.setAttribute("aria-pressed", String(button.dataset.label === span.label));
  const { accept, reject } = messages.consequences(item, span);
  byId("accept-text").textContent = accept;
  byId("reject-text").textContent = reject;
  byId("reset").toggleAttribute("data-none", !isChanged());
  showArrows();
}

function showArrows() {
  const leftToRight = getComputedStyle(byId("sentence")).direction === "ltr";
  for (const [boundary, name] of [["start", "beginning"], ["end", "end"]]) {
    for (const side of ["left", "right"]) {
      const earlier = (side === "left") === leftToRight;
      const button = byId(`${boundary}-${side}`);
      button.textContent = side === "left" ? "←" : "→";
      button.setAttribute("aria-label", `${name} one word ${earlier ? "earlier" : "later"}`);
    }
  }
}

/** Change the page. If that hides the element with the focus, the focus moves to the sentence, or to what replaces it. */
function keepingFocus(work) {
  const had = document.activeElement;
  work();
  if (had.disabled || !had.checkVisibility({ visibilityProperty: true })) byId(item ? "sentence" : "empty-button").focus();
}

function show(response) {
  counts = response.counts;
  item = response.item;
  closeConflict();
  keepingFocus(() => {
    byId("all-occurrences").checked = false;
    byId("empty").hidden = item !== null;
    byId("bottom").hidden = false; // Undo is always there
    for (const id of ["item", "all-occurrences-row", "navigate", "accept", "reject", "skip"]) byId(id).hidden = item === null;
    showCounts();
    if (item === null) showNothing(response.held_by_others);
    else showItem();
  });
}

function showItem() {
  const { decision } = item;
  span = suggestion();
  if (decision && item.status === "accepted") span = { start: decision.start, end: decision.end, label: decision.label };
  byId("question").textContent = messages.question(item);
  byId("facts").textContent = messages.facts(item);
  byId("all-occurrences-row").toggleAttribute("data-none", item.other_occurrences === 0);
  byId("all-occurrences").disabled = item.other_occurrences === 0;
  byId("all-occurrences-text").textContent = messages.allOccurrences(item);
  if (span.label !== NO_ENTITY && !labels.includes(span.label)) {
    addLabel(span.label);
    showLabels();
  }
  showSpan();
  byId("sentence").querySelector("mark")?.scrollIntoView({ block: "nearest" });
  byId("announcer").textContent = messages.announcement(item);
  shownAt = performance.now();
}

function showNothing(heldByOthers) {
  const { title, text, button, then } = messages.nothing(counts, filter, heldByOthers);
  byId("empty-title").textContent = title;
  byId("empty-text").textContent = text;
  byId("empty-button").textContent = button;
  byId("empty-button").onclick = () => setFilter(then);
  byId("announcer").textContent = `${title}. ${text}`;
}

// ---------------------------------------------------------------- changing the suggestion

const suggestion = () => ({ start: item.start, end: item.end, label: item.label });
const isChanged = () => ["start", "end", "label"].some((key) => span[key] !== item[key]);

function change(start, end, label = span.label) {
  if (!item || busy || start < 0 || end > item.words.length || start >= end) return;
  if (start === span.start && end === span.end && label === span.label) return;
  span = { start, end, label };
  closeConflict();
  keepingFocus(showSpan);
  byId("announcer").textContent = `${messages.textOf(item, span)}, ${labelName(label)}`;
}

const choose = (label) => item && change(span.start, span.end, label);

function move(boundary, side) {
  if (!item) return;
  const forward = (side === "right") === (getComputedStyle(byId("sentence")).direction === "ltr");
  const step = forward ? 1 : -1;
  if (boundary === "start") change(span.start + step, span.end);
  else change(span.start, span.end + step);
}

function reset() {
  if (!item || busy) return;
  span = suggestion();
  closeConflict();
  keepingFocus(showSpan);
  byId("announcer").textContent = `as suggested: ${item.text}, ${labelName(item.label)}`;
}

function addLabel(label) {
  labels.push(label);
  colors[label] ??= freeColor(colors);
}

function askForLabel() {
  if (!item) return;
  byId("other").value = "";
  byId("other-dialog").showModal();
}

function takeLabel() {
  const label = byId("other").value.trim();
  if (!label) return;
  if (/\s/.test(label)) {
    notice("A label cannot have spaces.", true);
    return;
  }
  if (label !== NO_ENTITY && !labels.includes(label)) {
    addLabel(label);
    showLabels();
    showSpan();
  }
  choose(label);
}

// ---------------------------------------------------------------- asking the server

/** One request at a time: a key that is pressed meanwhile does not decide about an item that nobody has seen. */
async function exclusively(work) {
  if (busy) return;
  busy = true;
  const buttons = byId("bottom").querySelectorAll("button");
  for (const button of buttons) button.setAttribute("aria-disabled", "true");
  try {
    await work();
  } catch (error) {
    notice(error.message, true);
  } finally {
    busy = false;
    for (const button of buttons) button.removeAttribute("aria-disabled");
  }
}

function decide(action, onOverlap = "ask") {
  if (!item) return;
  exclusively(async () => {
    const { number, version, text } = item;
    const allOccurrences = byId("all-occurrences").checked && item.other_occurrences > 0;
    const seconds = (performance.now() - shownAt) / 1000;
    try {
      const response = await api.decide(number, { version, action, ...span, on_overlap: onOverlap, all_occurrences: allOccurrences, filter });
      if (seconds < 120) durations.push(seconds);
      if (durations.length > PACE_WINDOW) durations.shift();
      notice(response.decided > 1 || Object.keys(response.left_open).length ? response.message : `${response.message.slice(0, -1)}: “${text}”.`);
      show(response);
    } catch (error) {
      if (error.reason === "overlap") openConflict(error, action);
      else if (error.reason === "already_decided") {
        show(await api.next(filter));
        notice(error.message, true);
      } else throw error;
    }
  });
}

const undo = () => exclusively(async () => {
  const response = await api.undo();
  show(response);
  notice(response.message);
});

const navigate = (backwards) => exclusively(async () => {
  show(await api.next(filter, item ? item.number : -1, backwards));
  notice("");
});

const setFilter = (chosen) => exclusively(async () => {
  filter = chosen;
  show(await api.next(filter));
  notice("");
});

// ---------------------------------------------------------------- overlapping entities

function openConflict(error, action) {
  conflicting = true;
  byId("conflict-text").textContent = error.message;
  byId("conflict-replace").replaceChildren(error.canKeepBoth ? "Replace it" : "Change that decision");
  byId("conflict-replace").onclick = () => decide(action, "replace");
  byId("conflict-keep").hidden = !error.canKeepBoth;
  byId("conflict-keep").onclick = () => decide(action, "keep");
  byId("conflict").hidden = false;
  byId("conflict-replace").focus();
}

function closeConflict() {
  if (!conflicting) return;
  conflicting = false;
  const inside = byId("conflict").contains(document.activeElement);
  byId("conflict").hidden = true;
  if (inside) byId("accept").focus();
}

// ---------------------------------------------------------------- keys and buttons

const KEYS = {
  a: () => decide("accept"),
  r: () => decide("reject"),
  s: () => decide("skip"),
  u: undo,
  z: undo,
  l: askForLabel,
  n: () => navigate(false),
  p: () => navigate(true),
  o: () => { if (item?.other_occurrences) byId("all-occurrences").click(); },
  k: () => { if (conflicting && !byId("conflict-keep").hidden) byId("conflict-keep").click(); },
  0: () => choose(NO_ENTITY),
  "?": () => byId("help").showModal(),
};

/** A dialog that has just closed may hold the focus until the page is drawn again: keys are shortcuts by then. */
function isTyping(target) {
  const dialog = target.closest?.("dialog");
  return dialog ? dialog.open : target.closest?.("select, input:not([type=checkbox])") !== null;
}

function onKey(event) {
  activeAt = performance.now();
  if (event.repeat && ["Enter", " "].includes(event.key) && event.target.closest?.("#bottom, #empty")) {
    event.preventDefault(); // a key that is held down decides about one item only
    return;
  }
  if (isTyping(event.target) || event.altKey) return;
  if (event.ctrlKey || event.metaKey) {
    if (event.key.toLowerCase() !== "z" || event.shiftKey) return;
    event.preventDefault();
    undo();
    return;
  }
  if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
    event.preventDefault();
    move(event.shiftKey ? "end" : "start", event.key === "ArrowLeft" ? "left" : "right");
    return;
  }
  if (event.key === "Escape") {
    if (conflicting) closeConflict();
    else reset();
    return;
  }
  if (event.repeat || !byId("shortcuts").checked) return;
  const key = event.key.toLowerCase();
  if (/^[1-9]$/.test(key) && labels[Number(key) - 1]) choose(labels[Number(key) - 1]);
  else if (Object.hasOwn(KEYS, key)) KEYS[key]();
  else return;
  event.preventDefault();
}

function connect() {
  document.addEventListener("keydown", onKey);
  document.addEventListener("pointerdown", () => { activeAt = performance.now(); });
  listen(byId("sentence"), () => span, (start, end) => change(start, end));
  for (const boundary of ["start", "end"]) for (const side of ["left", "right"]) byId(`${boundary}-${side}`).addEventListener("click", () => move(boundary, side));
  for (const action of ["accept", "reject", "skip"]) byId(action).addEventListener("click", (event) => {
    if (event.detail < 2 || performance.now() - shownAt > DOUBLE_CLICK) decide(action); // a double click is one decision
  });
  byId("undo").addEventListener("click", undo);
  byId("previous").addEventListener("click", () => navigate(true));
  byId("next").addEventListener("click", () => navigate(false));
  other.addEventListener("click", askForLabel);
  byId("reset").addEventListener("click", reset);
  byId("conflict-back").addEventListener("click", closeConflict);
  byId("help-button").addEventListener("click", () => byId("help").showModal());
  byId("other-form").addEventListener("submit", takeLabel);
  byId("other-back").addEventListener("click", () => byId("other-dialog").close());
  for (const id of ["status", "kind", "label"]) connectFilter(id);
  byId("name").addEventListener("change", () => api.rename(byId("name").value).catch((error) => notice(error.message, true)));
  byId("name").addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === "Escape") byId("main").focus(); });
  byId("shortcuts").checked = load("shortcuts") !== "off";
  byId("shortcuts").addEventListener("change", () => save("shortcuts", byId("shortcuts").checked ? "on" : "off"));
  const wide = matchMedia("(min-width: 40.01rem)");
  const unfold = () => { byId("tools").open = wide.matches; };
  wide.addEventListener("change", unfold);
  unfold();
  setInterval(heartbeat, HEARTBEAT);
}

/** Keys are shortcuts again once a filter was chosen with the pointer, or was left with Escape. */
function connectFilter(id) {
  let pointed = false;
  byId(id).addEventListener("pointerdown", () => { pointed = true; });
  byId(id).addEventListener("keydown", (event) => {
    pointed = false;
    if (event.key === "Escape") byId("main").focus();
  });
  byId(id).addEventListener("change", () => {
    if (pointed) byId("main").focus();
    setFilter({ ...filter, [id]: byId(id).value || null });
  });
}

/** Tells the server that somebody still looks at the item, and shows what others have decided meanwhile. */
async function heartbeat() {
  if (!item || busy || document.hidden || performance.now() - activeAt > IDLE) return;
  const response = await api.heartbeat(item.number).catch(() => null); // the next decision reports a lost server
  if (response && !busy && !["SELECT", "OPTION"].includes(document.activeElement?.tagName)) {
    counts = response.counts;
    showCounts();
  }
}

async function start() {
  connect();
  await exclusively(async () => {
    const about = await api.about();
    ({ labels, colors, counts, estimated_missing: estimate } = about);
    document.title = `Review of ${about.corpus}`;
    byId("corpus").textContent = about.corpus.split(", ").map((path) => path.split(/[/\\]/).at(-1)).join(", ");
    byId("corpus").title = about.corpus;
    byId("name").value = about.name;
    byId("warning").hidden = !about.warning;
    byId("warning").textContent = about.warning ? `${about.warning}.` : "";
    showLabels();
    show(await api.next(filter));
  });
}

start();
