// Values that the browser keeps between visits. Where storage is switched off, nothing is kept.

export function load(key) {
  try { return localStorage.getItem(`lacuner-${key}`); } catch { return null; }
}

export function save(key, value) {
  try { localStorage.setItem(`lacuner-${key}`, value); } catch { /* storage is switched off */ }
}
