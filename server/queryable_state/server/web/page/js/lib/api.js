// The REST interface. Addresses are relative to the page, so that it works below a path, too.

import { parseJson } from "./json.js";
import { refuse, token } from "./token.js";
import { heard, unheard } from "./link.js";

const BASE = new URL("api/v1/", document.baseURI);

/** A refusal of the server, or no answer at all (`reason` "UNREACHABLE"). */
export class ApiError extends Error {
  constructor(status, error) {
    super(error.message);
    this.status = status;
    this.reason = error.reason;
    this.retryAfterMs = error.retry_after_ms ?? 0;
    this.candidates = error.candidates ?? [];
  }
}

export function jobPath(job, ...rest) {
  return ["jobs", job, ...rest].map(encodeURIComponent).join("/");
}

export function statePath(job, state, ...rest) {
  return jobPath(job, "states", state, ...rest);
}

function address(path, query) {
  const url = new URL(path, BASE);
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== null && value !== "") url.searchParams.set(name, value);
  }
  return url;
}

async function errorOf(response) {
  let error = null;
  try {
    error = parseJson(await response.text()).error;
  } catch {
    // A proxy in between answers with a page of its own.
  }
  return new ApiError(response.status, error ?? {
    reason: `HTTP_${response.status}`,
    message: `The server answered ${response.status} ${response.statusText} without saying why.`,
  });
}

/** Sends one request; raises ApiError unless it succeeds. Aborts are passed on as they are. */
export async function send(path, { query, body, signal, headers = {}, method } = {}) {
  const sent = token();
  if (sent) headers.Authorization = `Bearer ${sent}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(address(path, query), {
      method: method ?? (body === undefined ? "GET" : "POST"),
      headers, signal, cache: "no-store",
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    unheard();
    throw new ApiError(0, {
      reason: "UNREACHABLE",
      message: `No answer from ${BASE.host}. The proxy or the driver with this page may be down, or the network.`,
    });
  }
  heard();
  if (response.ok) return response;
  const error = await errorOf(response);
  if (response.status === 401) refuse(error.message, sent);
  throw error;
}

/** The JSON answer of one request. */
export async function ask(path, options) {
  return parseJson(await (await send(path, options)).text());
}
