// Requests of the review. Each says which browser it comes from.

import { request as send } from "./request.js";
import { load, save } from "./storage.js";

function reviewerId() {
  const known = load("reviewer");
  if (known) return known;
  const made = Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  save("reviewer", made);
  return made;
}

const REVIEWER = reviewerId();
const NO_ANSWER = "The server does not answer. What was decided is stored. Start lacuner review again, and open its new address.";
const request = (path, body) => send(path, body, NO_ANSWER, { "X-Reviewer": REVIEWER });

export const api = {
  about: () => request("/api/review"),
  next: (filter, after = -1, backwards = false) => request("/api/next", { filter, after, backwards }),
  decide: (number, decision) => request(`/api/items/${number}/decide`, decision),
  undo: () => request("/api/undo", {}),
  heartbeat: (number) => request("/api/heartbeat", { number }),
  rename: (name) => request("/api/reviewer", { name }),
};
