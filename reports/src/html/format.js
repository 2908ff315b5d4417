// Numbers as text, exactly as the tables have them (reports/src/number.rs), and small helpers.
const places = (x, digits) => {
  if (x === 0 || !Number.isFinite(x)) return digits - 1;
  return Math.min(12, Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(x)))));
};
/** As toFixed, but exact ties go to the even digit, as in Rust. */
const fixed = (x, digits) => {
  const scaled = x * 10 ** digits;
  const tie = Number.isInteger(x * 2 ** (digits + 1)) && Math.abs(scaled % 1) === 0.5;
  if (!tie) return x.toFixed(digits);
  return (2 * Math.round(scaled / 2) / 10 ** digits).toFixed(digits);
};
const short = (x) => {
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (Number.isFinite(size) && (size < 1e-6 || size >= 0.9995e6)) {
    let exponent = Math.floor(Math.log10(size));
    if (size / Number(`1e${exponent}`) >= 9.995) exponent += 1;
    return `${fixed(x / Number(`1e${exponent}`), 2)}e${exponent}`;
  }
  const rounded = Number(fixed(x, places(x, 3)));
  return fixed(rounded, places(rounded, 3));
};
const quantity = (x, unit) => {
  if (unit !== "s" || x === 0) return `${short(x)} ${unit}`;
  const units = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]];
  const [size, name] = units.find(([size]) => Math.abs(x) >= 0.9995 * size) || units[2];
  return `${short(x / size)} ${name}`;
};
const secs = (ns) => quantity(ns / 1e9, "s");
/** A point in time: enough digits to tell neighbours apart. */
const clock = (ns) => `${(ns / 1e9).toFixed(3)} s`;

/** An element with properties and children; text stays text. */
const element = (name, properties = {}, ...children) => {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "class") node.className = value;
    else if (key.includes("-") || key === "role" || key === "for") node.setAttribute(key, value);
    else node[key] = value;
  }
  node.append(...children);
  return node;
};
const byId = (id) => document.getElementById(id);
const listing = (pairs) => {
  const list = element("dl");
  for (const [key, value] of pairs) list.append(element("dt", {}, key), element("dd", {}, String(value)));
  return list;
};
/** First index of a sorted list whose value is at least `x`. */
const lowerBound = (length, at, x) => {
  let [low, high] = [0, length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (at(middle) < x) low = middle + 1;
    else high = middle;
  }
  return low;
};
