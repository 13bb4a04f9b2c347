// Values that the browser keeps between visits, or as long as a tab is open. Where storage is switched off, nothing is kept.

export function load(key) {
  try { return localStorage.getItem(`lacuner-${key}`); } catch { return null; }
}

export function save(key, value) {
  try { localStorage.setItem(`lacuner-${key}`, value); } catch { /* storage is switched off */ }
}

export function loadForTab(key) {
  try { return sessionStorage.getItem(`lacuner-${key}`); } catch { return null; }
}

/** Whether it is kept. */
export function saveForTab(key, value) {
  try { sessionStorage.setItem(`lacuner-${key}`, value); } catch { return false; }
  return true;
}
