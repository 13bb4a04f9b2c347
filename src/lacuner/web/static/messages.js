// The texts of the page: about an item, the decisions about it, and the remaining work.

import { NO_ENTITY } from "./sentence.js";

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
export const number = (value) => whole.format(value);
export const percent = (value) => `${Math.round(100 * value)} %`;
const probability = (value) => (value > 0.99 ? "more than 99 %" : percent(value));
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;
const quoted = (text) => (RIGHT_TO_LEFT.test(text) ? `“\u2068${text}\u2069”` : `“${text}”`); // isolates its direction

/** The words of a span, as they are written in the sentence. */
export function textOf(item, { start, end }) {
  let text = item.words[start];
  for (let index = start + 1; index < end; index++) text += item.gaps[index] + item.words[index];
  return text;
}

export function question(item) {
  const { kind, label, text, annotated } = item;
  if (kind === "missing") return `Is ${quoted(text)} a missing ${label}?`;
  const known = `${quoted(textOf(item, annotated))} is annotated as ${annotated.label}.`;
  if (kind === "boundary") return `${known} Is it rather ${quoted(text)}, ${label}?`;
  return label === NO_ENTITY ? `${known} Is it no entity at all?` : `${known} Is it rather ${label}?`;
}

export function facts(item) {
  const parts = [`${item.kind}`, `${probability(item.probability)} probable`, `sentence ${number(item.sentence + 1)}`];
  const { annotated, decision } = item;
  const there = annotated && item.entities.some((e) => e.start === annotated.start && e.end === annotated.end && e.label === annotated.label);
  if (annotated && !there && item.status === "open") parts.push(`${quoted(textOf(item, annotated))} ${annotated.label} is not annotated any more`);
  if (decision) parts.push(`${item.status}${decision.reviewer ? ` by ${decision.reviewer}` : ""}`);
  return parts.join(" · ");
}

/** What accepting and rejecting would do, with the span and label as the reviewer has set them. */
export function consequences(item, span) {
  const { kind, annotated, text } = item;
  const now = textOf(item, span);
  const reject = kind === "missing" ? `${quoted(text)} is no entity` : `${quoted(textOf(item, annotated))} ${annotated.label} is right`;
  let accept = `${span.label}: ${quoted(now)}`;
  if (span.label === NO_ENTITY) accept = kind === "missing" ? `${quoted(text)} is no entity` : `remove ${quoted(textOf(item, annotated))} ${annotated.label}`;
  else if (kind === "missing") accept = `add ${quoted(now)} ${span.label}`;
  else if (annotated.start === span.start && annotated.end === span.end) accept = `${annotated.label} becomes ${span.label}`;
  else accept = `${quoted(now)} ${span.label} instead`;
  return { accept, reject };
}

export const allOccurrences = ({ other_occurrences: others }) =>
  `also decide about the ${others === 1 ? "other open finding" : `${number(others)} other open findings`} with these words`;

export function announcement(item) {
  return `${question(item)} ${probability(item.probability)} probable. ${textOf(item, { start: 0, end: item.words.length })}`;
}

const sum = (counts, key, which) => counts.filter(which).reduce((subtotal, count) => subtotal + count[key], 0);
export const total = (counts, which) => sum(counts, "count", which);
const isUndecided = ({ status }) => status === "open" || status === "skipped";

export function progress(counts) {
  const by = (status) => total(counts, (count) => count.status === status);
  const [open, accepted, rejected, skipped] = ["open", "accepted", "rejected", "skipped"].map(by);
  const all = open + accepted + rejected + skipped;
  const text = `${number(accepted + rejected)} of ${number(all)} decided: ${number(accepted)} accepted, ${number(rejected)} rejected · ${number(skipped)} skipped · ${number(open)} open`;
  return { open, skipped, fraction: all ? (accepted + rejected) / all : 1, text };
}

/** How much work, and how many entities, remain: among the findings, and beyond them. */
export function remaining(counts, estimate, secondsEach) {
  const undecided = total(counts, isUndecided);
  const right = sum(counts, "expected", isUndecided);
  let list = undecided
    ? `Of the ${number(undecided)} undecided findings, about ${number(right)} are right, going by their probabilities.`
    : "Nothing in the list is undecided.";
  if (undecided === 1) list = `One finding is undecided; it is right with a probability of ${percent(right)}.`;
  if (secondsEach && undecided > 1) {
    const minutes = (secondsEach * undecided) / 60;
    list += minutes < 1 ? " They take less than a minute at your pace." : ` They take about ${duration(minutes)} at your pace.`;
  }
  if (!estimate) return { list, beyond: "" };
  const added = total(counts, ({ kind, status }) => kind === "missing" && status === "accepted");
  const rest = Math.max(0, estimate.total - added);
  const guess = estimate.at_least
    ? `at least ${number(estimate.low)} entities are missing in the corpus, probably ${number(estimate.total)} or more`
    : `${number(estimate.total)} entities are missing in the corpus (between ${number(estimate.low)} and ${number(estimate.high)})`;
  const beyond = `The audit estimated that ${guess}, in the list or not.`;
  return { list, beyond: added ? `${beyond} ${added === 1 ? "1 missing one is" : `${number(added)} missing ones are`} accepted, so about ${number(rest)} are left.` : beyond };
}

function duration(minutes) {
  if (minutes < 90) return `${number(minutes)} minute${Math.round(minutes) === 1 ? "" : "s"}`;
  return `${number(minutes / 60)} hours`;
}

/** What the page shows if there is no item to show. */
export function nothing(counts, filter, heldByOthers) {
  const { open, skipped } = progress(counts);
  const filtered = filter.label !== null || filter.kind !== null;
  if (heldByOthers) {
    const which = heldByOthers === 1 ? "The last one is" : `The last ${number(heldByOthers)} are`;
    return { title: "Other reviewers have the rest", text: `${which} being looked at by other reviewers just now.`, button: "Look again", then: filter };
  }
  const all = { status: "open", label: null, kind: null };
  if (open && (filtered || filter.status !== "open")) return { title: "Nothing here", text: `No finding like that is ${filter.status}.`, button: `Show all ${number(open)} open findings`, then: all };
  const write = "To write the corpus with all decisions: lacuner review DIR --export reviewed.jsonl";
  if (skipped && filter.status !== "skipped") return { title: "Everything is decided, except for what was skipped", text: write, button: `Look at the ${number(skipped)} skipped`, then: { ...all, status: "skipped" } };
  return { title: "Everything is decided", text: write, button: "Look again", then: all };
}
