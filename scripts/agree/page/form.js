// A rating sheet: one answer at a time, kept in this browser, downloaded as the CSV that compare_raters reads.
"use strict";

(function () {
  const sheet = JSON.parse(document.getElementById("sheet").textContent);
  const guarded = new RegExp(sheet.guarded);
  const place = "rating sheet " + sheet.name;
  const find = (id) => document.getElementById(id);
  const fresh = () => ({ rater: "", at: 0, ratings: {} });
  let state = restored();

  function restored() {
    try {
      return Object.assign(fresh(), JSON.parse(localStorage.getItem(place) || "{}"));
    } catch {
      return fresh(); // a browser that keeps nothing, or something that is not ours
    }
  }

  function keep() {
    try {
      localStorage.setItem(place, JSON.stringify(state));
    } catch {
      find("storage").textContent = "This browser keeps nothing: download before you close the page.";
    }
  }

  function rating(row) {
    return (state.ratings[row.id] ||= { verdict: "", score: "", comment: "" });
  }

  // Why a rating can't be sent as it is; empty where it can, or where there is none.
  function problem(row) {
    const { verdict, score } = rating(row);
    if (verdict && score === "") return "A score from 0 to 5 is missing.";
    if (!verdict && score !== "") return "Yes or no is missing.";
    if ((verdict === "yes" && score === "0") || (verdict === "no" && score === "5"))
      return `${verdict} and ${score} contradict each other.`;
    return "";
  }

  const rated = (row) => rating(row).verdict !== "" && rating(row).score !== "" && !problem(row);

  function show() {
    const row = sheet.rows[state.at];
    const own = rating(row);
    for (const name of ["question", "truth", "answer"]) find(name).textContent = row[name];
    find("place").textContent = `Answer ${state.at + 1} of ${sheet.rows.length}`;
    find("progress").textContent = `${sheet.rows.filter(rated).length} of ${sheet.rows.length} rated`;
    find("rater").value = state.rater;
    find("comment").value = own.comment;
    for (const button of document.querySelectorAll("[data-verdict], [data-score]")) {
      const { verdict, score } = button.dataset;
      const chosen = verdict !== undefined ? own.verdict === verdict : own.score === score;
      button.setAttribute("aria-pressed", String(chosen));
    }
    find("problem").textContent = problem(row);
  }

  function choose(what, value) {
    const own = rating(sheet.rows[state.at]);
    own[what] = own[what] === value ? "" : value;
    keep();
    show();
  }

  function go(to) {
    state.at = Math.min(Math.max(to, 0), sheet.rows.length - 1);
    keep();
    show();
  }

  function unrated() {
    const count = sheet.rows.length;
    for (let step = 1; step <= count; step++) {
      const at = (state.at + step) % count;
      if (!rated(sheet.rows[at])) return go(at);
    }
    find("problem").textContent = "All are rated: download your ratings.";
  }

  const cell = (text) => `"${(guarded.test(text) ? "'" + text : text).replaceAll('"', '""')}"`;

  function csv() {
    const lines = sheet.rows.map((row) => {
      const own = rating(row);
      const rater = own.verdict ? state.rater.trim() : "";
      return [row.id, row.question, row.truth, row.answer, own.verdict, own.score, own.comment, rater];
    });
    return "\ufeff" + [sheet.columns, ...lines].map((line) => line.map(plain).join(",") + "\r\n").join("");
  }

  // Ids, verdicts and scores are given out as they are; so are they here.
  function plain(text, at) {
    return [0, 4, 5].includes(at) ? `"${text}"` : cell(text);
  }

  function download() {
    if (!state.rater.trim()) {
      find("problem").textContent = "Enter your name first.";
      return find("rater").focus();
    }
    const wrong = sheet.rows.findIndex((row) => problem(row));
    if (wrong >= 0) return go(wrong);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csv()], { type: "text/csv" }));
    link.download = `ratings-${state.rater.trim().replace(/[^\p{L}\p{N}]+/gu, "-")}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  // For the next person at the same computer, who must not see these ratings.
  function anew() {
    if (!confirm("Forget all ratings in this browser? Download them first.")) return;
    state = fresh();
    go(0);
  }

  for (const button of document.querySelectorAll("[data-verdict]"))
    button.addEventListener("click", () => choose("verdict", button.dataset.verdict));
  for (const button of document.querySelectorAll("[data-score]"))
    button.addEventListener("click", () => choose("score", button.dataset.score));
  find("previous").addEventListener("click", () => go(state.at - 1));
  find("next").addEventListener("click", () => go(state.at + 1));
  find("unrated").addEventListener("click", unrated);
  find("download").addEventListener("click", download);
  find("anew").addEventListener("click", anew);
  find("rater").addEventListener("input", (event) => {
    state.rater = event.target.value;
    keep();
  });
  find("comment").addEventListener("input", (event) => {
    rating(sheet.rows[state.at]).comment = event.target.value;
    keep();
  });
  document.addEventListener("keydown", (event) => {
    if (event.target.tagName === "INPUT" || event.ctrlKey || event.metaKey || event.altKey) return;
    const key = event.key.toLowerCase();
    if (key === "y" || key === "n") choose("verdict", key === "y" ? "yes" : "no");
    else if (/^[0-5]$/.test(event.key)) choose("score", event.key);
    else if (event.key === "ArrowLeft") go(state.at - 1);
    else if (event.key === "ArrowRight") go(state.at + 1);
  });
  go(state.at);
})();
