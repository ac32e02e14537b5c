// Answers that are asked for again and again while they are on the screen.

import { ask } from "./api.js";
import { onToken } from "./token.js";
import { useCallback, useEffect, useRef, useState } from "./view.js";

const SLOWEST_MS = 15_000;
const NOTHING = { data: null, error: null, askedAt: 0, failedAt: 0, at: 0 };

/**
 * The newest answer of a path; null as path asks nothing. After an error the last answer stays, and
 * the next try waits for longer. A hidden page asks nothing. 0 as period asks once.
 */
export function usePolled(path, query, periodMs) {
  const [state, setState] = useState(NOTHING);
  const [turn, setTurn] = useState(0);
  const key = path === null ? null : `${path}?${JSON.stringify(query ?? {})}`;
  const asked = useRef(null);

  useEffect(() => onToken(() => setTurn((value) => value + 1)), []);
  useEffect(() => {
    if (asked.current !== key) setState(NOTHING);
    asked.current = key;
    if (key === null) return undefined;
    const abort = new AbortController();
    let timer = 0;
    let failures = 0;
    let answered = false;
    const schedule = (ms) => {
      clearTimeout(timer);
      if (ms) timer = setTimeout(step, ms);
    };
    async function step() {
      if (document.hidden) return;
      const askedAt = Date.now();
      try {
        const data = await ask(path, { query, signal: abort.signal });
        failures = 0;
        answered = true;
        setState({ data, error: null, askedAt, failedAt: 0, at: Date.now() });
        schedule(periodMs);
      } catch (error) {
        if (abort.signal.aborted) return;
        failures += 1;
        setState((last) => ({ ...last, error, failedAt: askedAt }));
        if (error.status !== 401) schedule(Math.min(SLOWEST_MS, Math.max(1000, error.retryAfterMs) * 2 ** (failures - 1)));
      }
    }
    const shown = () => { if (!document.hidden && (periodMs || !answered)) step(); };
    document.addEventListener("visibilitychange", shown);
    step();
    return () => {
      abort.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", shown);
    };
  }, [key, periodMs, turn]);

  return { ...state, again: useCallback(() => setTurn((value) => value + 1), []) };
}

/** The reader's clock, at most `periodMs` old. */
export function useNow(periodMs = 1000) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), periodMs);
    return () => clearInterval(timer);
  }, [periodMs]);
  return now;
}
