// The page: one finding at a time.

import { server } from "./server.js";
import { NONE, colourOf, draw, element, listen, nameOf } from "./sentence.js";
import * as words from "./words.js";

const at = (id) => document.getElementById(id);
const STATUSES = ["open", "skipped", "accepted", "rejected"];
const KINDS = ["missing", "label", "boundary"];
const RENEW = 20_000; // milliseconds after which the server hears that somebody still looks
const AWAY = 300_000; // without a key or a click the finding is free for others after this
const GLANCE = 400; // in so short a time nobody has read a finding
const PACES = 20;

let labels = [];
let estimate = null;
let tallies = [];
let wanted = { status: "open", label: null, kind: null };
let finding = null;
let span = null; // start, end and label that would be accepted
let busy = false;
let clashing = false;
let shownAt = 0;
let touchedAt = Date.now();
const paces = []; // seconds that the last decisions took

// ---------------------------------------------------------------- showing

function notice(text, bad = false) {
  at("notice").textContent = text;
  at("notice").classList.toggle("bad", bad);
}

function option(value, text, chosen) {
  const made = element("option", { value }, text);
  made.selected = chosen;
  return made;
}

function showTallies() {
  const { text, share } = words.progress(tallies);
  at("progress").textContent = text;
  at("bar").value = share;
  at("bar").textContent = words.percent(share);
  const sorted = [...paces].sort((one, other) => one - other);
  const { list, beyond } = words.left(tallies, estimate, paces.length < 5 ? null : sorted[sorted.length >> 1]);
  at("left").textContent = list;
  at("left-beyond").textContent = beyond;
  const fits = (tally, but) => ["status", "kind", "label"].every((key) => key === but || wanted[key] === null || tally[key] === wanted[key]);
  const choices = (id, values, all, name) => {
    const counted = values.map((value) => [value, words.count(tallies, (tally) => tally[id] === value && fits(tally, id))]);
    const options = counted.map(([value, count]) => option(value, `${name(value)} (${words.number(count)})`, wanted[id] === value));
    at(id).replaceChildren(...(all ? [option("", all, wanted[id] === null)] : []), ...options);
  };
  const found = new Set(tallies.map((tally) => tally.label));
  choices("status", STATUSES, null, (status) => status);
  choices("kind", KINDS.filter((kind) => tallies.some((tally) => tally.kind === kind)), "all kinds", (kind) => kind);
  choices("label", [...labels, NONE].filter((label) => found.has(label)), "all labels", nameOf);
}

const other = element("button", { type: "button", class: "quiet", "data-colour": "none", id: "other-button" }, "other… ", element("kbd", {}, "L"));

function showLabels() {
  const button = (label, key) => {
    const made = element("button", { type: "button", "data-colour": colourOf(label, labels), "data-label": label }, nameOf(label));
    if (key !== null) made.append(" ", element("kbd", {}, key));
    made.addEventListener("click", () => choose(label));
    return made;
  };
  at("labels").replaceChildren(...labels.map((label, index) => button(label, index < 9 ? String(index + 1) : null)), button(NONE, "0"), other);
  at("known-labels").replaceChildren(...labels.map((label) => element("option", { value: label })));
}

function showSpan() {
  draw(at("sentence"), finding, span, labels);
  for (const button of at("labels").querySelectorAll("[data-label]")) button.setAttribute("aria-pressed", String(button.dataset.label === span.label));
  const { accept, reject } = words.consequences(finding, span);
  at("accept-text").textContent = accept;
  at("reject-text").textContent = reject;
  at("reset").toggleAttribute("data-none", !isChanged());
  showArrows();
}

function showArrows() {
  const leftToRight = getComputedStyle(at("sentence")).direction === "ltr";
  for (const [border, name] of [["start", "beginning"], ["end", "end"]]) {
    for (const side of ["left", "right"]) {
      const earlier = (side === "left") === leftToRight;
      const button = at(`${border}-${side}`);
      button.textContent = side === "left" ? "←" : "→";
      button.setAttribute("aria-label", `${name} one word ${earlier ? "earlier" : "later"}`);
    }
  }
}

/** Change the page. If that takes away what has the focus, one goes on from the sentence, or from what stands in its place. */
function keepingFocus(work) {
  const had = document.activeElement;
  work();
  if (had.disabled || !had.checkVisibility({ visibilityProperty: true })) at(finding ? "sentence" : "empty-button").focus();
}

function show(answer) {
  if (answer.tallies) tallies = answer.tallies;
  finding = answer.finding;
  closeClash();
  keepingFocus(() => {
    at("everywhere").checked = false;
    at("empty").hidden = finding !== null;
    at("bottom").hidden = false; // Undo is always there
    for (const id of ["case", "everywhere-row", "look", "accept", "reject", "skip"]) at(id).hidden = finding === null;
    showTallies();
    if (finding === null) showNothing(answer.elsewhere);
    else showFinding();
  });
}

function showFinding() {
  const { decision } = finding;
  span = suggestion();
  if (decision && finding.status === "accepted") span = { start: decision.start, end: decision.end, label: decision.label };
  at("question").textContent = words.question(finding);
  at("facts").textContent = words.facts(finding);
  at("everywhere-row").toggleAttribute("data-none", finding.same === 0);
  at("everywhere").disabled = finding.same === 0;
  at("everywhere-text").textContent = words.everywhere(finding);
  if (span.label !== NONE && !labels.includes(span.label)) {
    labels.push(span.label);
    showLabels();
  }
  showSpan();
  at("sentence").querySelector("mark")?.scrollIntoView({ block: "nearest" });
  at("announcer").textContent = words.announcement(finding);
  shownAt = Date.now();
}

function showNothing(elsewhere) {
  const { title, text, button, then } = words.nothing(tallies, wanted, elsewhere);
  at("empty-title").textContent = title;
  at("empty-text").textContent = text;
  at("empty-button").textContent = button;
  at("empty-button").onclick = () => filter(then);
  at("announcer").textContent = `${title}. ${text}`;
}

// ---------------------------------------------------------------- changing the suggestion

const suggestion = () => ({ start: finding.start, end: finding.end, label: finding.label });
const isChanged = () => ["start", "end", "label"].some((key) => span[key] !== finding[key]);

function change(start, end, label = span.label) {
  if (!finding || busy || start < 0 || end > finding.words.length || start >= end) return;
  if (start === span.start && end === span.end && label === span.label) return;
  span = { start, end, label };
  closeClash();
  keepingFocus(showSpan);
  at("announcer").textContent = `${words.textOf(finding, span)}, ${nameOf(label)}`;
}

const choose = (label) => finding && change(span.start, span.end, label);

function move(border, side) {
  if (!finding) return;
  const forward = (side === "right") === (getComputedStyle(at("sentence")).direction === "ltr");
  const step = forward ? 1 : -1;
  if (border === "start") change(span.start + step, span.end);
  else change(span.start, span.end + step);
}

function reset() {
  if (!finding || busy) return;
  span = suggestion();
  closeClash();
  keepingFocus(showSpan);
  at("announcer").textContent = `as suggested: ${finding.text}, ${nameOf(finding.label)}`;
}

function askForLabel() {
  if (!finding) return;
  at("other").value = "";
  at("other-dialog").showModal();
}

function takeLabel() {
  const label = at("other").value.trim();
  if (!label) return;
  if (/\s/.test(label)) {
    notice("A label cannot have spaces.", true);
    return;
  }
  if (label !== NONE && !labels.includes(label)) {
    labels.push(label);
    showLabels();
    showSpan();
  }
  choose(label);
}

// ---------------------------------------------------------------- asking the server

/** One request at a time: a key that is pressed meanwhile does not decide about a finding that nobody has seen. */
async function alone(work) {
  if (busy) return;
  busy = true;
  const buttons = at("bottom").querySelectorAll("button");
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

function decide(action, overlaps = "ask") {
  if (!finding) return;
  alone(async () => {
    const { number, version, text } = finding;
    const everywhere = at("everywhere").checked && finding.same > 0;
    const took = (Date.now() - shownAt) / 1000;
    try {
      const answer = await server.decide(number, { version, action, ...span, overlaps, everywhere, wanted });
      if (took < 120) paces.push(took);
      if (paces.length > PACES) paces.shift();
      notice(answer.decided > 1 || Object.keys(answer.left_out).length ? answer.message : `${answer.message.slice(0, -1)}: “${text}”.`);
      show(answer);
    } catch (error) {
      if (error.reason === "overlap") openClash(error, action);
      else if (error.reason === "decided") {
        show(await server.next(wanted));
        notice(error.message, true);
      } else throw error;
    }
  });
}

const undo = () => alone(async () => {
  const answer = await server.undo();
  show(answer);
  notice(answer.message);
});

const look = (backwards) => alone(async () => {
  show(await server.next(wanted, finding ? finding.number : -1, backwards));
  notice("");
});

const filter = (chosen) => alone(async () => {
  wanted = chosen;
  show(await server.next(wanted));
  notice("");
});

// ---------------------------------------------------------------- overlapping entities

function openClash(refusal, action) {
  clashing = true;
  at("clash-text").textContent = refusal.message;
  at("clash-replace").replaceChildren(refusal.onlyOne ? "Decide anew" : "Replace it");
  at("clash-replace").onclick = () => decide(action, "replace");
  at("clash-keep").hidden = Boolean(refusal.onlyOne);
  at("clash-keep").onclick = () => decide(action, "keep");
  at("clash").hidden = false;
  at("clash-replace").focus();
}

function closeClash() {
  if (!clashing) return;
  clashing = false;
  const inside = at("clash").contains(document.activeElement);
  at("clash").hidden = true;
  if (inside) at("accept").focus();
}

// ---------------------------------------------------------------- keys and buttons

const KEYS = {
  a: () => decide("accept"),
  r: () => decide("reject"),
  s: () => decide("skip"),
  u: undo,
  z: undo,
  l: askForLabel,
  n: () => look(false),
  p: () => look(true),
  o: () => { if (finding?.same) at("everywhere").click(); },
  k: () => { if (clashing && !at("clash-keep").hidden) at("clash-keep").click(); },
  0: () => choose(NONE),
  "?": () => at("help").showModal(),
};

function isTyping(target) {
  return target.closest?.("dialog, select, input:not([type=checkbox])") !== null;
}

function onKey(event) {
  touchedAt = Date.now();
  if (event.repeat && ["Enter", " "].includes(event.key) && event.target.closest?.("#bottom, #empty")) {
    event.preventDefault(); // a key that is held down does not decide about what nobody has seen
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
    if (clashing) closeClash();
    else reset();
    return;
  }
  if (event.repeat || !at("shortcuts").checked) return;
  const key = event.key.toLowerCase();
  if (/^[1-9]$/.test(key) && labels[Number(key) - 1]) choose(labels[Number(key) - 1]);
  else if (Object.hasOwn(KEYS, key)) KEYS[key]();
  else return;
  event.preventDefault();
}

function connect() {
  document.addEventListener("keydown", onKey);
  document.addEventListener("pointerdown", () => { touchedAt = Date.now(); });
  listen(at("sentence"), () => span, (start, end) => change(start, end));
  for (const border of ["start", "end"]) for (const side of ["left", "right"]) at(`${border}-${side}`).addEventListener("click", () => move(border, side));
  for (const action of ["accept", "reject", "skip"]) at(action).addEventListener("click", (event) => {
    if (event.detail < 2 || Date.now() - shownAt > GLANCE) decide(action); // a double click is one decision
  });
  at("undo").addEventListener("click", undo);
  at("previous").addEventListener("click", () => look(true));
  at("next").addEventListener("click", () => look(false));
  other.addEventListener("click", askForLabel);
  at("reset").addEventListener("click", reset);
  at("clash-back").addEventListener("click", closeClash);
  at("help-button").addEventListener("click", () => at("help").showModal());
  at("other-form").addEventListener("submit", takeLabel);
  at("other-back").addEventListener("click", () => at("other-dialog").close());
  for (const id of ["status", "kind", "label"]) connectFilter(id);
  at("name").addEventListener("change", () => server.rename(at("name").value).catch((error) => notice(error.message, true)));
  at("name").addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === "Escape") at("finding").focus(); });
  at("shortcuts").checked = remembered("shortcuts") !== "off";
  at("shortcuts").addEventListener("change", () => remember("shortcuts", at("shortcuts").checked ? "on" : "off"));
  const wide = matchMedia("(min-width: 40.01rem)");
  const unfold = () => { at("tools").open = wide.matches; };
  wide.addEventListener("change", unfold);
  unfold();
  setInterval(renew, RENEW);
}

/** Keys are shortcuts again once a filter was chosen with the pointer, or left with Escape. */
function connectFilter(id) {
  let pointed = false;
  at(id).addEventListener("pointerdown", () => { pointed = true; });
  at(id).addEventListener("keydown", (event) => {
    pointed = false;
    if (event.key === "Escape") at("finding").focus();
  });
  at(id).addEventListener("change", () => {
    if (pointed) at("finding").focus();
    filter({ ...wanted, [id]: at(id).value || null });
  });
}

function remembered(key) {
  try { return localStorage.getItem(`lacuner-${key}`); } catch { return null; }
}

function remember(key, value) {
  try { localStorage.setItem(`lacuner-${key}`, value); } catch { /* storage is switched off */ }
}

/** The server hears that somebody still looks, and the page hears what others have done. */
async function renew() {
  if (!finding || busy || document.hidden || Date.now() - touchedAt > AWAY) return;
  const answer = await server.looking(finding.number).catch(() => null);
  if (answer && !busy && !["SELECT", "OPTION"].includes(document.activeElement?.tagName)) {
    tallies = answer.tallies;
    showTallies();
  }
}

async function begin() {
  if (location.search) history.replaceState(null, "", location.pathname); // the token is in a cookie now
  connect();
  await alone(async () => {
    const about = await server.about();
    ({ labels, tallies, estimated_missing: estimate } = about);
    document.title = `Review of ${about.corpus}`;
    at("corpus").textContent = about.corpus.split(", ").map((path) => path.split(/[/\\]/).at(-1)).join(", ");
    at("corpus").title = about.corpus;
    at("name").value = about.name;
    at("warning").hidden = !about.warning;
    at("warning").textContent = about.warning ? `${about.warning}.` : "";
    showLabels();
    show(await server.next(wanted));
  });
}

begin();
