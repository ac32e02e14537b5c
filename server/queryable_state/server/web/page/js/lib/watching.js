// A watch as a hook: the committed changes of a key or a state, resumed after a lost connection.

import { ApiError, statePath } from "./api.js";
import { parseField } from "./json.js";
import { readEvents } from "./sse.js";
import { onToken } from "./token.js";
import { useEffect, useRef, useState } from "./view.js";

const MOST = 200;
const SLOWEST_MS = 10_000;

function valueIn(change, name) {
  return `${name}_json` in change ? parseField(change[`${name}_json`]) : change[name];
}

/** The changes of one message, each with its batch. */
export function changesOf(message) {
  return (message.changes ?? []).map((change) => ({
    batch: message.batch, at: message.commit_time_ms || Date.now(), kind: change.kind, window: change.window,
    key: valueIn(change, "key"), mapKey: valueIn(change, "map_key"),
    value: valueIn(change, "value"), old: valueIn(change, "old_value"), oldUnknown: change.old_unknown,
  }));
}

/**
 * `state` is "connecting", "open", "lost" (tries again) or "refused" (with `error`). `onChanges` gets
 * the changes of each batch, `onGap` the batches that the server does not have any more. Another `run`
 * begins anew, with the next batch: positions of one job mean nothing in another.
 */
export function useWatch(job, state, query, { enabled, run, onChanges, onGap }) {
  const [status, setStatus] = useState({ state: "connecting", error: null, batch: null });
  const [turn, setTurn] = useState(0);
  const handlers = useRef({});
  handlers.current = { onChanges, onGap };
  const asked = JSON.stringify(query);
  useEffect(() => onToken(() => setTurn((value) => value + 1)), []);
  useEffect(() => {
    if (!enabled) return undefined;
    const abort = new AbortController();
    let timer = 0;
    let failures = 0;
    let lastId = null;
    function onEvent(event) {
      if (event.id) lastId = event.id;
      if (event.type === "error") throw new ApiError(0, event.data.error);
      failures = 0;
      const message = event.data;
      if (message.gap) handlers.current.onGap?.(message.gap);
      const changes = changesOf(message);
      if (changes.length) handlers.current.onChanges?.(changes.slice(-MOST));
      setStatus({ state: "open", error: null, batch: message.batch });
    }
    async function run() {
      let error = null;
      try {
        await readEvents(statePath(job, state, "watch"), {
          query: JSON.parse(asked), lastId, signal: abort.signal, onEvent,
          onOpen: () => setStatus((last) => ({ ...last, state: "open", error: null })),
        });
      } catch (failure) {
        error = failure;
      }
      if (abort.signal.aborted) return;
      const final = error?.status >= 400 && error.status < 500 && error.status !== 429;
      setStatus((last) => ({ ...last, state: final ? "refused" : "lost", error }));
      if (final) return;
      failures += 1;
      timer = setTimeout(run, Math.min(SLOWEST_MS, 250 * 2 ** failures));
    }
    setStatus({ state: "connecting", error: null, batch: null });
    run();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [job, state, asked, enabled, turn, run]);
  return status;
}
