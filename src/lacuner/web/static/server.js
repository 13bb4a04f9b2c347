// What the page asks the server for. Every request says which browser it comes from.

const KEY = "lacuner-reviewer";

function reviewer() {
  try {
    const known = localStorage.getItem(KEY);
    if (known) return known;
  } catch { /* storage is switched off: this page is a reviewer of its own */ }
  const made = Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  try { localStorage.setItem(KEY, made); } catch { /* as above */ }
  return made;
}

const me = reviewer();

/** An answer that is not what was asked for; `reason` says why. */
export class Refusal extends Error {
  constructor(status, { reason, message, only_one: onlyOne }) {
    super(message);
    this.status = status;
    this.reason = reason;
    this.onlyOne = onlyOne;
  }
}

const SILENCE = "The server does not answer. What was decided is stored. Start lacuner review again, and open its new address.";

async function ask(path, body) {
  const headers = { "X-Reviewer": me };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method: body === undefined ? "GET" : "POST", headers, body: JSON.stringify(body) });
  } catch {
    throw new Refusal(0, { reason: "silence", message: SILENCE });
  }
  const content = await answer.json().catch(() => ({ reason: "silence", message: `The server failed (${answer.status}).` }));
  if (!answer.ok) throw new Refusal(answer.status, content);
  return content;
}

export const server = {
  about: () => ask("/api/review"),
  next: (wanted, after = -1, backwards = false) => ask("/api/next", { wanted, after, backwards }),
  decide: (number, decision) => ask(`/api/findings/${number}/decide`, decision),
  undo: () => ask("/api/undo", {}),
  looking: (number) => ask("/api/looking", { number }),
  rename: (name) => ask("/api/reviewer", { name }),
};
