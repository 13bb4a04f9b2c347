// What the server answers, from its own description. Nothing is fetched from elsewhere, so that it works without a network.

import { request } from "./request.js";
import { element } from "./sentence.js";

const byId = (id) => document.getElementById(id);

const typeOf = ({ type, items, anyOf, enum: choices, const: only }) => {
  if (only !== undefined) return JSON.stringify(only);
  if (choices) return choices.map((choice) => JSON.stringify(choice)).join(" or ");
  if (anyOf) return anyOf.map(typeOf).filter((name) => name !== "null").join(" or ");
  return type === "array" ? `list of ${typeOf(items ?? {})}` : type ?? "anything";
};

function bodyOf({ description, properties = {}, required = [] }) {
  const rows = Object.entries(properties).map(([name, schema]) => element("tr", {},
    element("td", {}, element("code", {}, name)),
    element("td", {}, typeOf(schema)),
    element("td", {}, required.includes(name) ? "required" : schema.default === undefined || schema.default === null ? "" : JSON.stringify(schema.default))));
  const head = element("tr", {}, ...["field", "type", "default"].map((name) => element("th", { scope: "col" }, name)));
  return [element("p", {}, description ?? ""), element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows))];
}

function routeOf(path, method, { summary, requestBody }) {
  const schema = requestBody?.content["application/json"].schema;
  const bodies = schema ? schema.oneOf ?? [schema] : [];
  const title = element("summary", {}, element("b", {}, `${method.toUpperCase()} ${path}`), ` ${summary ?? ""}`);
  return element("details", {}, title, ...bodies.flatMap(bodyOf));
}

async function start() {
  try {
    const { info, paths } = await request("/openapi.json", undefined, "The server does not answer.");
    byId("about").textContent = `Lacuner ${info.version}`;
    byId("routes").replaceChildren(...Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, route]) => routeOf(path, method, route))));
  } catch (error) {
    byId("notice").textContent = error.message;
  }
}

start();
