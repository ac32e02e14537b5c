// Server-sent events over fetch: EventSource cannot send a token.

import { send } from "./api.js";
import { parseJson } from "./json.js";

/** The events of a text in the format of text/event-stream; the rest is not complete yet. */
export function splitEvents(text) {
  const blocks = text.replaceAll("\r\n", "\n").split("\n\n");
  const rest = blocks.pop();
  const events = [];
  for (const block of blocks) {
    const event = { type: "message", id: null, data: [] };
    for (const line of block.split("\n")) {
      const [, name, value] = /^([^:]*):? ?(.*)$/s.exec(line);
      if (name === "event") event.type = value;
      else if (name === "id") event.id = value;
      else if (name === "data") event.data.push(value);
    }
    if (event.data.length) events.push({ ...event, data: parseJson(event.data.join("\n")) });
  }
  return { events, rest };
}

/**
 * Reads a stream until it ends or `signal` aborts; calls `onEvent(event)` for each event.
 * `lastId` resumes after that event. Raises ApiError if the stream cannot be opened.
 */
export async function readEvents(path, { query, lastId, signal, onOpen, onEvent }) {
  const headers = { Accept: "text/event-stream" };
  if (lastId) headers["Last-Event-ID"] = lastId;
  const response = await send(path, { query, signal, headers });
  onOpen();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const { events, rest } = splitEvents(buffer + value);
    buffer = rest;
    events.forEach(onEvent);
  }
}
