// Requests to the server. Each says which browser it comes from, and carries the token.

import { load, loadForTab, save, saveForTab } from "./storage.js";

const tokenInAddress = () => new URLSearchParams(location.hash.slice(1)).get("token");

/** The token moves from the address bar to the storage of this tab, which no other server can read: not even one on another port. */
function takeToken() {
  const given = tokenInAddress();
  if (given && saveForTab("token", given)) history.replaceState(null, "", location.pathname);
  return given ?? loadForTab("token") ?? "";
}

const TOKEN = takeToken();
addEventListener("hashchange", () => { if (tokenInAddress()) location.reload(); }); // the address of a new server, in the old tab

function reviewerId() {
  const known = load("reviewer");
  if (known) return known;
  const made = Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  save("reviewer", made);
  return made;
}

const REVIEWER = reviewerId();

/** A request that failed; `reason` says why. */
export class RequestError extends Error {
  constructor({ reason, message, can_keep_both: canKeepBoth = false }) {
    super(message);
    this.reason = reason;
    this.canKeepBoth = canKeepBoth;
  }
}

const NO_ANSWER = "The server does not answer. What was decided is stored. Start lacuner review again, and open its new address.";

async function request(path, body) {
  const headers = { "X-Reviewer": REVIEWER, Authorization: `Bearer ${TOKEN}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method: body === undefined ? "GET" : "POST", headers, body: JSON.stringify(body) });
  } catch {
    throw new RequestError({ reason: "no_answer", message: NO_ANSWER });
  }
  const content = await response.json().catch(() => ({ reason: "server", message: `The server failed (${response.status}).` }));
  if (!response.ok) throw new RequestError(content);
  return content;
}

export const api = {
  about: () => request("/api/review"),
  next: (filter, after = -1, backwards = false) => request("/api/next", { filter, after, backwards }),
  decide: (number, decision) => request(`/api/items/${number}/decide`, decision),
  undo: () => request("/api/undo", {}),
  heartbeat: (number) => request("/api/heartbeat", { number }),
  rename: (name) => request("/api/reviewer", { name }),
};
