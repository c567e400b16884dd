// What the reader has chosen, in the page's address, after the section in which it was chosen:
// #abstain&calibrator=temperature&threshold=0.88. A link with it opens the page in the same state and at that section;
// a plain #reliability leads to a section.

const ADDRESS = [];
// key: its name in the address; keys: of the state; get: the text, or null for the initial value; set: takes such a text.
const addAddress = (entry) => ADDRESS.push(entry);
let reading = false;
let due = 0;
let seenHash = ""; // the address that was last read or written: a newer one, not read yet, must not be overwritten
let lastSection = "";
// The section of the control that was used last. Those of the first screen and bars above sections have none. Some
// browsers do not focus a button that is clicked.
["focusin", "pointerdown"].forEach((name) =>
  addEventListener(name, (event) => {
    const within = event.target instanceof Element && event.target.closest("main section[id]");
    if (within && within.id !== "answers") lastSection = within.id;
  }),
);

function writeAddress() {
  if (reading || due) return;
  due = requestAnimationFrame(() => {
    due = 0;
    if (location.hash !== seenHash) return;
    const parts = ADDRESS.map(({ key, get }) => [key, get()]).filter(([, text]) => exists(text));
    const values = parts.map(([key, value]) => `${key}=${encodeURIComponent(value)}`);
    const text = values.length ? [...(lastSection ? [lastSection] : []), ...values].join("&") : "";
    if (!text && !location.hash.includes("=")) return; // nothing to store; a section's name in the address stays
    try {
      history.replaceState(null, "", text ? `#${text}` : "#");
      seenHash = location.hash;
      if (parent !== window) parent.postMessage({ softkin: text ? `#${text}` : "" }, "*"); // softkin report serve keeps it
    } catch {
      // some browsers do not let a page opened from a file change its address; the page works without it
    }
  });
}

function readAddress() {
  if (!location.hash.includes("=")) return;
  reading = true;
  try {
    for (const part of location.hash.slice(1).split("&")) {
      const [key, ...rest] = part.split("=");
      if (!rest.length) lastSection = decodeURIComponent(key);
      const entry = ADDRESS.find((known) => known.key === key);
      if (entry) entry.set(decodeURIComponent(rest.join("=")));
    }
  } catch {
    // the address was cut or mistyped: keep the parts that could be read
  } finally {
    reading = false;
  }
}
