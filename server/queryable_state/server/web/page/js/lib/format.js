// Numbers, durations, sizes and times as text. Times are milliseconds since the epoch; 0 is unknown.

const NONE = "–";
const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const precise = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

/** The field `asks_all_partitions` of a state in words. */
export const NOT_HASH_PARTITIONED = "not hash-partitioned: look-ups ask all partitions";

export function count(value) {
  return value === undefined || value === null ? NONE : plain.format(value);
}

/** A rate per second; small ones keep their digits. */
export function rate(value) {
  if (!Number.isFinite(value)) return NONE;
  return value >= 100 ? plain.format(value) : precise.format(value);
}

export function percent(share) {
  return `${share >= 0.1 ? (share * 100).toFixed(0) : (share * 100).toFixed(1)} %`;
}

export function bytes(value) {
  if (value === undefined || value === null) return NONE;
  let size = Number(value);
  for (const unit of ["B", "KiB", "MiB", "GiB", "TiB"]) {
    if (size < 1024 || unit === "TiB") return `${size < 10 && unit !== "B" ? size.toFixed(1) : size.toFixed(0)} ${unit}`;
    size /= 1024;
  }
  return NONE;
}

function pair(value, large, largeUnit, small, smallUnit) {
  const rest = Math.floor((value % large) / small);
  return `${Math.floor(value / large)} ${largeUnit}${rest ? ` ${rest} ${smallUnit}` : ""}`;
}

/** A duration in its largest sensible unit. */
export function duration(ms) {
  if (ms === undefined || ms === null || !Number.isFinite(Number(ms))) return NONE;
  const value = Math.abs(Number(ms));
  const sign = ms < 0 ? "−" : "";
  if (value < 1000) return `${sign}${Math.round(value)} ms`;
  if (value < 60_000) return `${sign}${(value / 1000).toFixed(value < 10_000 ? 1 : 0)} s`;
  if (value < 3_600_000) return sign + pair(value, 60_000, "min", 1000, "s");
  if (value < 172_800_000) return sign + pair(value, 3_600_000, "h", 60_000, "min");
  const days = Math.round(value / 86_400_000);
  if (days < 365) return `${sign}${days} days`;
  const years = value / 31_556_952_000;
  return `${sign}${years < 10 ? years.toFixed(1) : years.toFixed(0)} years`;
}

/** A duration in microseconds. */
export function micros(us) {
  return us < 1000 ? `${us} µs` : us < 1_000_000 ? `${(us / 1000).toFixed(us < 10_000 ? 2 : 1)} ms` : duration(us / 1000);
}

/** How long ago a time is, by a clock; the server's, where it is known. */
export function ago(ms, now) {
  if (!ms) return "never";
  const passed = now - ms;
  return passed < 1000 ? "now" : `${duration(passed)} ago`;
}

function two(value) {
  return String(value).padStart(2, "0");
}

/** The time of day of the reader, with the date unless it is today. */
export function clock(ms) {
  if (!ms) return NONE;
  const time = new Date(Number(ms));
  const day = `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`;
  if (new Date().toDateString() === time.toDateString()) return day;
  return `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())} ${day}`;
}

/** UTC in ISO 8601: event time does not depend on who reads it. */
export function utc(ms) {
  if (ms === undefined || ms === null) return NONE;
  const time = new Date(Number(ms));
  if (Number.isNaN(time.getTime())) return `${ms} ms`;
  const text = time.toISOString().replace("T", " ");
  return Number(ms) % 1000 ? text : text.replace(".000Z", "Z");
}

/** "RESTORE_MISMATCH" as "restore mismatch". */
export function words(name) {
  return (name ?? "").toLowerCase().replaceAll("_", " ");
}

export function plural(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}
