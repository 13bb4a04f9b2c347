// What the page says about a finding, its decisions, and what is left.

import { NONE, nameOf } from "./sentence.js";

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
export const number = (value) => whole.format(value);
export const percent = (value) => `${Math.round(100 * value)} %`;
const probability = (value) => (value > 0.99 ? "more than 99 %" : percent(value));
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;
const quoted = (text) => (RIGHT_TO_LEFT.test(text) ? `“\u2068${text}\u2069”` : `“${text}”`); // keeps its order to itself

/** The words of a range, as they stand in the sentence. */
export function textOf(finding, { start, end }) {
  let text = finding.words[start];
  for (let index = start + 1; index < end; index++) text += finding.gaps[index] + finding.words[index];
  return text;
}

export function question(finding) {
  const { kind, label, text, annotated } = finding;
  if (kind === "missing") return `Is ${quoted(text)} a missing ${label}?`;
  const known = `${quoted(textOf(finding, annotated))} is annotated as ${annotated.label}.`;
  if (kind === "boundary") return `${known} Is it rather ${quoted(text)}, ${label}?`;
  return label === NONE ? `${known} Is it no entity at all?` : `${known} Is it rather ${label}?`;
}

export function facts(finding) {
  const parts = [`${finding.kind}`, `${probability(finding.probability)} probable`, `sentence ${number(finding.sentence + 1)}`];
  const { annotated, decision } = finding;
  const there = annotated && finding.entities.some((e) => e.start === annotated.start && e.end === annotated.end && e.label === annotated.label);
  if (annotated && !there && finding.status === "open") parts.push(`${quoted(textOf(finding, annotated))} ${annotated.label} is not there any more`);
  if (decision) parts.push(`${finding.status}${decision.reviewer ? ` by ${decision.reviewer}` : ""}`);
  return parts.join(" · ");
}

/** What accepting and rejecting would do, now that the reviewer may have changed the span. */
export function consequences(finding, span) {
  const { kind, annotated, text } = finding;
  const now = textOf(finding, span);
  const reject = kind === "missing" ? `${quoted(text)} is no entity` : `${quoted(textOf(finding, annotated))} ${annotated.label} is right`;
  let accept = `${span.label}: ${quoted(now)}`;
  if (span.label === NONE) accept = kind === "missing" ? `${quoted(text)} is no entity` : `remove ${quoted(textOf(finding, annotated))} ${annotated.label}`;
  else if (kind === "missing") accept = `add ${quoted(now)} ${span.label}`;
  else if (annotated.start === span.start && annotated.end === span.end) accept = `${annotated.label} becomes ${span.label}`;
  else accept = `${quoted(now)} ${span.label} instead`;
  return { accept, reject };
}

export const everywhere = (finding) =>
  `also decide about the ${finding.same === 1 ? "other open finding" : `${number(finding.same)} other open findings`} with these words`;

export function announcement(finding) {
  return `${question(finding)} ${probability(finding.probability)} probable. ${textOf(finding, { start: 0, end: finding.words.length })}`;
}

const sum = (tallies, of, which) => tallies.filter(which).reduce((total, tally) => total + tally[of], 0);
export const count = (tallies, which) => sum(tallies, "count", which);
const isLeft = ({ status }) => status === "open" || status === "skipped";

export function progress(tallies) {
  const by = (status) => count(tallies, (tally) => tally.status === status);
  const [open, accepted, rejected, skipped] = ["open", "accepted", "rejected", "skipped"].map(by);
  const total = open + accepted + rejected + skipped;
  const text = `${number(accepted + rejected)} of ${number(total)} decided: ${number(accepted)} accepted, ${number(rejected)} rejected · ${number(skipped)} skipped · ${number(open)} open`;
  return { open, skipped, share: total ? (accepted + rejected) / total : 1, text };
}

/** How much work, and how many entities, are left: in the list, and beyond it. */
export function left(tallies, estimate, secondsEach) {
  const undecided = count(tallies, isLeft);
  const right = sum(tallies, "expected", isLeft);
  let list = undecided
    ? `Of the ${number(undecided)} undecided findings, about ${number(right)} are right, going by their probabilities.`
    : "Nothing in the list is undecided.";
  if (undecided === 1) list = `One finding is undecided; it is right with a probability of ${percent(right)}.`;
  if (secondsEach && undecided > 1) {
    const minutes = (secondsEach * undecided) / 60;
    list += minutes < 1 ? " They take less than a minute at your pace." : ` They take about ${duration(minutes)} at your pace.`;
  }
  if (!estimate) return { list, beyond: "" };
  const added = count(tallies, ({ kind, status }) => kind === "missing" && status === "accepted");
  const rest = Math.max(0, estimate.total - added);
  const beyond = `The audit estimated that ${number(estimate.total)} entities are missing in the corpus (between ${number(estimate.low)} and ${number(estimate.high)}), in the list or not.`;
  return { list, beyond: added ? `${beyond} ${added === 1 ? "1 missing one is" : `${number(added)} missing ones are`} accepted, so about ${number(rest)} are left.` : beyond };
}

function duration(minutes) {
  if (minutes < 90) return `${number(minutes)} minute${Math.round(minutes) === 1 ? "" : "s"}`;
  return `${number(minutes / 60)} hours`;
}

/** What the page shows if there is no finding to show. */
export function nothing(tallies, wanted, elsewhere) {
  const { open, skipped } = progress(tallies);
  const filtered = wanted.label !== null || wanted.kind !== null;
  if (elsewhere) {
    const who = elsewhere === 1 ? "The last one is" : `The last ${number(elsewhere)} are`;
    return { title: "Others are at it", text: `${who} being looked at by other reviewers just now.`, button: "Look again", then: wanted };
  }
  const all = { status: "open", label: null, kind: null };
  if (open && (filtered || wanted.status !== "open")) return { title: "Nothing here", text: `No finding like that is ${wanted.status}.`, button: `Show all ${number(open)} open findings`, then: all };
  const write = "To write the corpus with all decisions: lacuner review DIR --export reviewed.jsonl";
  if (skipped && wanted.status !== "skipped") return { title: "Everything is decided, except for what was skipped", text: write, button: `Look at the ${number(skipped)} skipped`, then: { ...all, status: "skipped" } };
  return { title: "Everything is decided", text: write, button: "Look again", then: all };
}
