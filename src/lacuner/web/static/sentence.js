// A sentence: its words with annotated or predicted entities, and perhaps a suggestion, which mouse and keys move.
// Text is always inserted as text, never as markup.

export const NO_ENTITY = "O";
const COLORS = 8;

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** The color of a label; `colors` has the numbers that the server gives them, which are those of reports and notebooks, too. */
export const colorOf = (label, colors) => (label !== NO_ENTITY && Object.hasOwn(colors, label) ? String(colors[label]) : "none");

/** A color for a label that the server does not know yet: one that few others have. */
export function freeColor(colors) {
  const uses = Array(COLORS).fill(0);
  for (const number of Object.values(colors)) uses[number]++;
  return uses.indexOf(Math.min(...uses));
}

export const labelName = (label) => (label === NO_ENTITY ? "no entity" : label);

const NO_SPAN = { start: -1, end: -1 };

/**
 * A text with entities, whose offsets count characters, as an item to draw: its words are the pieces between their boundaries.
 * Characters are code points, of which a string in JavaScript has fewer than its length says.
 */
export function itemOf(text, entities) {
  const characters = Array.from(text);
  const cuts = [...new Set([0, characters.length, ...entities.flatMap(({ start, end }) => [start, end])])].sort((one, other) => one - other);
  const words = cuts.slice(1).map((end, index) => characters.slice(cuts[index], end).join(""));
  const index = new Map(cuts.map((cut, position) => [cut, position]));
  const moved = entities.map((entity) => ({ ...entity, start: index.get(entity.start), end: index.get(entity.end) }));
  return { words, gaps: Array(words.length + 1).fill(""), entities: moved };
}

/** Draw entities only. */
export const drawEntities = (box, item, colors) => draw(box, item, NO_SPAN, colors);

const overlap = (one, other) => one.start < other.end && other.start < one.end;

/** Entities that are drawn as blocks, and those that overlap the suggestion or a block. */
function layers(entities, span) {
  const blocks = [];
  const under = [];
  for (const entity of entities) (overlap(entity, span) || blocks.some((block) => overlap(block, entity)) ? under : blocks).push(entity);
  return { blocks, under };
}

/** Draw the sentence of an item into `box` as it would be if `span` were accepted. */
export function draw(box, item, span, colors) {
  const { blocks, under } = layers(item.entities, span);
  const starts = new Map(blocks.map((block) => [block.start, { ...block, name: "span", class: "entity" }]));
  starts.set(span.start, { ...span, name: "mark", class: "" });
  const content = [];
  let open = null;
  item.words.forEach((text, index) => {
    const gap = document.createTextNode(item.gaps[index]);
    (open ? open.node : content)[open ? "append" : "push"](gap);
    if (!open && starts.has(index)) {
      const range = starts.get(index);
      open = { range, node: element(range.name, { class: range.class, "data-color": colorOf(range.label, colors) }) };
      if (range.name === "mark") open.node.append(element("span", { class: "unseen" }, "suggested: "));
      content.push(open.node);
    }
    const word = element("span", { class: "word", "data-index": index }, text);
    const old = under.find((entity) => entity.start <= index && index < entity.end);
    if (old && !hasSameSpan(span, old)) {
      word.classList.add("old");
      word.setAttribute("data-color", colorOf(old.label, colors));
      word.title = old.score === undefined ? `annotated: ${old.label}` : `${old.label} ${shownScore(old.score)}`;
    }
    (open ? open.node : content)[open ? "append" : "push"](word);
    if (open && index === open.range.end - 1) {
      open.node.append(tag(open.range, span, under));
      open = null;
    }
  });
  content.push(document.createTextNode(item.gaps.at(-1)));
  box.replaceChildren(...content);
}

const shownScore = (score) => score.toFixed(2); // as in reports and notebooks

const hasSameSpan = (span, old) => old.start === span.start && old.end === span.end;

/** The label after an entity; if the same words are annotated with another label, that one is shown struck through. */
function tag(range, span, under) {
  const made = element("bdi", { class: "tag" });
  const old = range.name === "mark" ? under.find((entity) => hasSameSpan(span, entity) && entity.label !== range.label) : null;
  if (old) made.append(element("s", {}, old.label), " → ");
  made.append(labelName(range.label));
  if (range.score !== undefined) made.append(" ", element("span", { class: "score" }, shownScore(range.score)));
  return made;
}

/**
 * Let the pointer mark words: click, drag, or shift and click. `change` gets the new start and end when it is released;
 * until then the words only change color, so that they do not move under the pointer.
 */
export function listen(box, current, change) {
  let anchor = null;
  let focus = null;
  const at = (event) => {
    const word = document.elementFromPoint(event.clientX, event.clientY)?.closest(".word");
    return word && box.contains(word) ? Number(word.dataset.index) : null;
  };
  const paint = () => {
    for (const word of box.querySelectorAll(".word")) {
      const index = Number(word.dataset.index);
      word.classList.toggle("picked", anchor !== null && Math.min(anchor, focus) <= index && index <= Math.max(anchor, focus));
    }
  };
  box.addEventListener("pointerdown", (event) => {
    const index = at(event);
    const span = current();
    if (index === null || event.button !== 0 || !span) return;
    anchor = event.shiftKey ? (index < span.start ? span.end - 1 : span.start) : index;
    focus = index;
    box.setPointerCapture(event.pointerId);
    paint();
  });
  box.addEventListener("pointermove", (event) => {
    const index = anchor === null ? null : at(event);
    if (index === null || index === focus) return;
    focus = index;
    paint();
  });
  box.addEventListener("pointerup", () => {
    if (anchor === null) return;
    const [start, last] = [Math.min(anchor, focus), Math.max(anchor, focus)];
    anchor = null;
    paint();
    change(start, last + 1);
  });
  box.addEventListener("pointercancel", () => { // the finger scrolls instead
    anchor = null;
    paint();
  });
}
