// The sentence of a finding: words with what is annotated, and the suggestion that mouse and keys move.
// Text gets into the page as text only, whatever it contains.

export const NONE = "O";
const COLOURS = 8;

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** The colour of a label, always the same in one review. */
export function colourOf(label, labels) {
  const place = labels.indexOf(label);
  return label === NONE || place < 0 ? "none" : String(place % COLOURS);
}

export const nameOf = (label) => (label === NONE ? "no entity" : label);

const overlap = (one, other) => one.start < other.end && other.start < one.end;

/** Entities that can be drawn as blocks, and those that share words with the suggestion or with a block. */
function layers(entities, span) {
  const blocks = [];
  const under = [];
  for (const entity of entities) (overlap(entity, span) || blocks.some((block) => overlap(block, entity)) ? under : blocks).push(entity);
  return { blocks, under };
}

/** Draw a finding into `box` as it would be if `span` were accepted. */
export function draw(box, finding, span, labels) {
  const { blocks, under } = layers(finding.entities, span);
  const starts = new Map(blocks.map((block) => [block.start, { ...block, name: "span", class: "entity" }]));
  starts.set(span.start, { ...span, name: "mark", class: "" });
  const content = [];
  let open = null;
  finding.words.forEach((text, index) => {
    const gap = document.createTextNode(finding.gaps[index]);
    (open ? open.node : content)[open ? "append" : "push"](gap);
    if (!open && starts.has(index)) {
      const range = starts.get(index);
      open = { range, node: element(range.name, { class: range.class, "data-colour": colourOf(range.label, labels) }) };
      if (range.name === "mark") open.node.append(element("span", { class: "unseen" }, "suggested: "));
      content.push(open.node);
    }
    const word = element("span", { class: "word", "data-index": index }, text);
    const old = under.find((entity) => entity.start <= index && index < entity.end);
    if (old && !isRelabelled(finding, span, old)) {
      word.classList.add("old");
      word.setAttribute("data-colour", colourOf(old.label, labels));
      word.title = `annotated: ${old.label}`;
    }
    (open ? open.node : content)[open ? "append" : "push"](word);
    if (open && index === open.range.end - 1) {
      open.node.append(tag(finding, open.range, span, under));
      open = null;
    }
  });
  content.push(document.createTextNode(finding.gaps.at(-1)));
  box.replaceChildren(...content);
}

const isRelabelled = (finding, span, old) => old.start === span.start && old.end === span.end;

/** The label behind an entity; where another one is annotated, that one is struck out before it. */
function tag(finding, range, span, under) {
  const made = element("bdi", { class: "tag" });
  const old = range.name === "mark" ? under.find((entity) => isRelabelled(finding, span, entity) && entity.label !== range.label) : null;
  if (old) made.append(element("s", {}, old.label), " → ");
  made.append(nameOf(range.label));
  return made;
}

/**
 * Let the pointer mark words: click, drag, or shift and click. `change` gets the new start and end when it is released;
 * until then the words only change colour, so that they stay where they are under the pointer.
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
