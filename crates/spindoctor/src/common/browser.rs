//! What a browser makes of a page, for the tests of pages. A machine without chromium skips those, and says so.

use std::io::Read as _;
use std::path::Path;
use std::process::Command;

use flate2::read::ZlibDecoder;
use regex::bytes::Regex;

/// Widths of a telephone, a tablet and a screen, CSS pixels.
const WIDTHS: [u32; 3] = [390, 768, 1280];
/// Words up to this many letters stand on one line: names of variables are longer.
const SHORT_WORD: usize = 10;
/// So do parts of names, between which the page says that a name may be broken; a browser breaks an option behind its hyphens, too.
const NAME_PART: usize = 12;

/// The least contrast of a text with what is behind it: WCAG 2.2, success criterion 1.4.3, level AA.
const LEAST_CONTRAST: f64 = 4.5;

/// Writes what is wrong with each frame into the document, once all are laid out: a document or a box that is wider than
/// what shows it, a short word that is broken over two lines, and a text that can hardly be read on its ground. Tables of many
/// columns may be scrolled.
const LOOK: &str = r#"
const numbers = colour => (colour.match(/[\d.]+/g) || []).map(Number);
const luminance = colour => colour.slice(0, 3).map(part => part / 255)
  .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
  .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
const ground = element => {
  for (let each = element; each; each = each.parentElement) {
    const colour = numbers(getComputedStyle(each).backgroundColor);
    if (colour.length === 3 || colour[3] === 1) return colour;
  }
  return [255, 255, 255];
};
const contrast = element => {
  const [light, dark] = [numbers(getComputedStyle(element).color), ground(element)].map(luminance).sort((a, b) => b - a);
  return (light + 0.05) / (dark + 0.05);
};
addEventListener("load", () => {
  const faults = [];
  for (const frame of document.querySelectorAll("iframe")) {
    const page = frame.contentDocument, wrong = text => faults.push(`${frame.name}: ${text}`);
    const root = page.documentElement;
    if (root.scrollWidth > root.clientWidth) wrong(`${root.scrollWidth} wide`);
    for (const box of page.querySelectorAll("figure, .picture:has(.sweep, .intervals)"))
      if (box.scrollWidth > box.clientWidth + 1) wrong(`${box.className} is cut at ${box.clientWidth} of ${box.scrollWidth}`);
    const texts = page.createTreeWalker(page.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const text = texts.currentNode, range = page.createRange(), box = text.parentElement;
      if (text.data.trim() && !box.closest("style, svg") && box.getClientRects().length && contrast(box) < LEAST_CONTRAST)
        wrong(`"${text.data.trim().slice(0, 20)}" has a contrast of ${contrast(box).toFixed(1)}`);
      const isPart = [text.previousSibling, text.nextSibling].some(beside => beside?.nodeName === "WBR");
      if (text.parentElement.closest(isPart ? "style, svg" : "style, svg, code")) continue;
      for (const word of text.data.matchAll(/\S+/g)) {
        if (word[0].length > (isPart ? NAME_PART : SHORT_WORD)) continue;
        if (isPart && word[0].includes("-")) continue;
        range.setStart(text, word.index);
        range.setEnd(text, word.index + word[0].length);
        if (new Set([...range.getClientRects()].map(rect => Math.round(rect.top))).size > 1) wrong(`"${word[0]}" is broken`);
      }
    }
  }
  document.body.textContent = `looked at: ${faults.join("; ")}.`;
});
"#;

/// What is wrong with pages at the widths of a telephone, a tablet and a screen; empty where nothing is, or where there is no
/// browser.
pub fn faults(pages: &[(&str, String)]) -> String {
    let frames: String =
        pages.iter().flat_map(|(name, page)| WIDTHS.map(|width| frame(name, page, width))).collect();
    let look = LOOK
        .replace("SHORT_WORD", &SHORT_WORD.to_string())
        .replace("NAME_PART", &NAME_PART.to_string())
        .replace("LEAST_CONTRAST", &LEAST_CONTRAST.to_string());
    let document = format!("<!DOCTYPE html><meta charset=utf-8><script>{look}</script><body>{frames}</body>");
    let Some(folder) = folder_with(&document) else { return String::new() };
    let dom = browser(folder.path(), &["--dump-dom"]);
    let faults = dom.split_once("<body>looked at: ").and_then(|(_, rest)| rest.split_once(".</body>"));
    faults.map_or_else(|| format!("nothing was looked at: {dom}"), |(faults, _)| faults.to_owned())
}

fn frame(name: &str, page: &str, width: u32) -> String {
    let page = page.replace('&', "&amp;").replace('"', "&quot;");
    format!(
        "<iframe name=\"{name} at {width}\" style=\"border:0;width:{width}px;height:900px\" srcdoc=\"{page}\"></iframe>"
    )
}

/// How far down its first sheet of paper a page has text, as a share of the sheet's height; none where there is no browser.
pub fn filled_of_first_sheet(page: &str) -> Option<f64> {
    let folder = folder_with(page)?;
    let pdf = folder.path().join("page.pdf");
    browser(folder.path(), &["--no-pdf-header-footer", &format!("--print-to-pdf={}", pdf.display())]);
    Some(lowest_text(&std::fs::read(pdf).unwrap()))
}

/// The lowest text of a PDF's first page as Chromium writes it: the page names the object of its contents, which place each
/// text by `1 0 0 -1 45 627 Tm`, CSS pixels from above.
fn lowest_text(pdf: &[u8]) -> f64 {
    let number = |pattern: &str, within: &[u8]| -> f64 {
        let found = Regex::new(pattern).unwrap().captures(within).unwrap_or_else(|| panic!("no {pattern}"));
        String::from_utf8_lossy(&found[1]).parse().unwrap()
    };
    let first = Regex::new(r"/Type /Page\b").unwrap().find(pdf).unwrap().end();
    let height_pt = number(r"/MediaBox \[0 0 \S+ (\S+)\]", &pdf[first..]);
    let contents = number(r"/Contents (\d+) 0 R", &pdf[first..]);
    let begin = Regex::new(&format!(r"\n{contents} 0 obj[^>]*>> stream\n")).unwrap().find(pdf).unwrap().end();
    let mut drawing = Vec::new();
    ZlibDecoder::new(&pdf[begin..]).read_to_end(&mut drawing).unwrap();
    let places = Regex::new(r"(\S+) Tm\b").unwrap();
    let lowest =
        places.captures_iter(&drawing).map(|place| number(r"(\S+) Tm", &place[0])).fold(0.0, f64::max);
    lowest / (height_pt / 0.75)
}

fn is_installed() -> bool {
    let is = Command::new("chromium").arg("--version").output().is_ok();
    if !is {
        println!("skipped: chromium is not installed");
    }
    is
}

/// A folder with this document, where there is a browser to show it.
fn folder_with(document: &str) -> Option<tempfile::TempDir> {
    if !is_installed() {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("page.html"), document).unwrap();
    Some(folder)
}

/// What the browser prints of the folder's document.
fn browser(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
        .args(arguments)
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("file://{}", folder.join("page.html").display()))
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_too_wide_or_too_pale_is_found() {
        if !is_installed() {
            return;
        }
        let page = |style: &str| format!("<!DOCTYPE html><style>{style}</style><p>A sentence.</p>");
        let of = |style: &str| faults(&[("page", page(style))]);
        assert_eq!(of("p{color:#656d76;background:#fff}"), "");
        let found = of("p{color:#999;background:#fff}");
        assert!(found.contains("page at 390: \"A sentence.\" has a contrast of 2.8"), "{found}");
        let found = of("p{width:800px}");
        assert!(found.contains("page at 768: ") && !found.contains("page at 1280: "), "{found}");
    }
}
