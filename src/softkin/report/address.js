// What the reader has chosen, in the page's address: #class=fox&calibrator=temperature.
// A link with it opens the page in the same state; a plain #reliability still leads to a section.

const ADDRESS = [];
// key: its name in the address; keys: of the state; get: the text, or null for the initial value; set: takes such a text.
const addAddress = (entry) => ADDRESS.push(entry);
let reading = false;
let due = 0;

function writeAddress() {
  if (reading || due) return;
  due = requestAnimationFrame(() => {
    due = 0;
    const parts = ADDRESS.map(({ key, get }) => [key, get()]).filter(([, text]) => exists(text));
    const text = parts.map(([key, value]) => `${key}=${encodeURIComponent(value)}`).join("&");
    if (!text && !location.hash.includes("=")) return; // nothing to store; a section's name in the address stays
    try {
      history.replaceState(null, "", text ? `#${text}` : "#");
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
      const entry = ADDRESS.find((known) => known.key === key);
      if (entry) entry.set(decodeURIComponent(rest.join("=")));
    }
  } catch {
    // the address was cut or mistyped: keep the parts that could be read
  } finally {
    reading = false;
  }
}
