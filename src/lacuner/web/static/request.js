// Requests to the server, with the token. Pages of all servers use them.

import { loadForTab, saveForTab } from "./storage.js";

const tokenInAddress = () => new URLSearchParams(location.hash.slice(1)).get("token");

/** The token moves from the address bar to the storage of this tab, which no other server can read: not even one on another port. */
function takeToken() {
  const given = tokenInAddress();
  if (given && saveForTab("token", given)) history.replaceState(null, "", location.pathname);
  return given ?? loadForTab("token") ?? "";
}

const TOKEN = takeToken();
addEventListener("hashchange", () => { if (tokenInAddress()) location.reload(); }); // the address of a new server, in the old tab

/** A request that failed; `reason` says why, and `status` is that of the response, if there was one. */
export class RequestError extends Error {
  constructor({ reason, message, can_keep_both: canKeepBoth = false }, status = 0) {
    super(message);
    this.reason = reason;
    this.status = status;
    this.canKeepBoth = canKeepBoth;
  }
}

/** The JSON that the server answers; `noAnswer` is what to tell people if it does not. */
export async function request(path, body, noAnswer, more = {}) {
  const headers = { ...more };
  if (TOKEN) headers.Authorization = `Bearer ${TOKEN}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method: body === undefined ? "GET" : "POST", headers, body: JSON.stringify(body) });
  } catch {
    throw new RequestError({ reason: "no_answer", message: noAnswer });
  }
  const content = await response.json().catch(() => ({ reason: "server", message: `The server failed (${response.status}).` }));
  if (!response.ok) throw new RequestError(content, response.status);
  return content;
}
