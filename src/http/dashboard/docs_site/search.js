// Search over the sections of all chapters. SEARCH_INDEX has [title, heading, address, text] of each.
const input = document.getElementById("search");
const results = document.getElementById("results");
const count = document.getElementById("count");
const MAX_RESULTS = 20;

const rank = ([title, heading, , text], words) => {
  let sum = 0;
  for (const word of words) {
    if (heading.toLowerCase().includes(word)) sum += 10;
    else if (title.toLowerCase().includes(word)) sum += 5;
    else if (text.toLowerCase().includes(word)) sum += 1;
    else return 0;
  }
  return sum;
};

const excerpt = (text, word) => {
  const start = Math.max(0, text.toLowerCase().indexOf(word) - 40);
  return (start > 0 ? "…" : "") + text.slice(start, start + 140) + (text.length > start + 140 ? "…" : "");
};

const show = () => {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  results.replaceChildren();
  results.hidden = true;
  count.textContent = "";
  if (words.length === 0) return;
  const found = SEARCH_INDEX.map((entry) => [rank(entry, words), entry])
    .filter(([sum]) => sum > 0)
    .sort(([one], [other]) => other - one);
  count.textContent = found.length === 1 ? "1 section" : `${found.length} sections`;
  for (const [, [title, heading, address, text]] of found.slice(0, MAX_RESULTS)) {
    const link = document.createElement("a");
    link.href = address;
    link.textContent = heading === title ? title : `${title}: ${heading}`;
    const part = document.createElement("span");
    part.textContent = excerpt(text, words[0]);
    link.append(part);
    const item = document.createElement("li");
    item.append(link);
    results.append(item);
  }
  results.hidden = found.length === 0;
};

input.disabled = false;
input.addEventListener("input", show);
input.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    input.value = "";
    show();
  } else if (event.key === "Enter") {
    results.querySelector("a")?.click();
  }
});
results.addEventListener("click", () => { results.hidden = true; });
