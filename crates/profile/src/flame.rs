//! Draws a flame graph: one SVG file, no network, no font of its own, light and dark as the reader's browser.
//!
//! In: boxes with their place and width, a title, what the colours mean. Out: the file. Without script it can be read
//! as it is, and each box shows its numbers when the pointer rests on it; the script adds search and zoom.
//!
//! The picture is Brendan Gregg's (<https://www.brendangregg.com/flamegraphs.html>): the width of a box is its share,
//! boxes stand on their callers, neighbours are in order of name.

use std::fmt::Write as _;

use spindoctor_page::svg;

/// What the picture is about.
pub struct Picture<'a> {
    /// The first line.
    pub title: String,
    /// The line below.
    pub subtitle: String,
    /// What each colour means: its class, the word, and a share where it has one.
    pub legend: Vec<(&'a str, String)>,
    /// The boxes; a box stands behind its parent.
    pub boxes: Vec<Box<'a>>,
    /// The classes of the boxes with their colours, light and dark.
    pub colours: &'a [Colour],
}

/// One box.
pub struct Box<'a> {
    /// What is written into it.
    pub name: String,
    /// The text that is shown when the pointer rests on it.
    pub tooltip: String,
    /// Rows above the lowest.
    pub depth: usize,
    /// Where it begins, as a share of the whole width.
    pub start: f64,
    /// Its width, as a share of the whole width.
    pub share: f64,
    /// Its colour.
    pub class: &'a str,
}

/// The colour of a class: hue in degrees, saturation from 0 to 1, lightness from 0 to 1 on white and on black.
pub struct Colour {
    /// The class.
    pub class: &'static str,
    /// Hue, degrees.
    pub hue: f64,
    /// Saturation.
    pub saturation: f64,
    /// Lightness on a light page.
    pub light: f64,
    /// Lightness on a dark page.
    pub dark: f64,
}

/// Pixels: the picture's width, its margin, the height of a row, where the boxes begin.
const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 12.0;
const ROW: f64 = 18.0;
const HEAD: f64 = 84.0;
const FOOT: f64 = 30.0;
/// Where the boxes begin within a page, which has a title of its own.
const PAGE_HEAD: f64 = 50.0;
/// Pixels of a letter of the boxes' font: 12 px monospace is 7.2 px wide, everywhere.
const LETTER: f64 = 7.22;
/// Narrower boxes, in pixels, are left out: nobody can see them.
const NARROWEST: f64 = 0.2;
/// A name stands in a box that has room for so many letters.
const FEWEST_LETTERS: usize = 3;
/// Shades of a class: neighbours of one colour can be distinguished.
const SHADES: u32 = 3;

/// Where the picture stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In a file of its own, with the script for search and zoom.
    File,
    /// Within an HTML page, which has a title of its own and allows no script. Its styles touch nothing else there.
    Page,
}

/// The picture as SVG.
pub fn draw(picture: &Picture<'_>, place: Place) -> String {
    let inner = WIDTH - 2.0 * MARGIN;
    let drawn: Vec<&Box<'_>> = picture.boxes.iter().filter(|each| each.share * inner >= NARROWEST).collect();
    let rows = drawn.iter().map(|each| each.depth + 1).max().unwrap_or(1);
    let head = if place == Place::File { HEAD } else { PAGE_HEAD };
    let height = head + rows as f64 * ROW + if place == Place::File { FOOT } else { MARGIN };
    let mut svg = String::new();
    if place == Place::File {
        let _ = writeln!(svg, r#"<?xml version="1.0" encoding="UTF-8" standalone="no"?>"#);
    }
    let size = match place {
        Place::File => format!(r#"width="{WIDTH}" height="{height}""#),
        Place::Page => r#"width="100%""#.to_owned(),
    };
    let _ = writeln!(
        svg,
        r#"<svg xmlns="http://www.w3.org/2000/svg" version="1.1" class="flame" {size} viewBox="0 0 {WIDTH} {height}" role="img">"#
    );
    let _ = writeln!(svg, "<title>{}</title>", svg::text(&picture.title));
    let _ = writeln!(svg, "<style>{}</style>", style(picture.colours));
    let (title, subtitle) = (svg::text(&picture.title), svg::text(&picture.subtitle));
    match place {
        Place::File => {
            let right = WIDTH - MARGIN;
            let foot = height - 10.0;
            let _ = writeln!(svg, r#"<rect class="page" x="0" y="0" width="100%" height="100%"/>"#);
            let _ = writeln!(svg, r#"<text class="title" x="{MARGIN}" y="28">{title}</text>"#);
            let _ = writeln!(svg, r#"<text class="quiet" x="{MARGIN}" y="47">{subtitle}</text>"#);
            for (id, class, y) in
                [("reset", "button", 28), ("search", "button", 47), ("matched", "quiet", 68)]
            {
                let _ = writeln!(
                    svg,
                    r#"<text id="{id}" class="{class}" x="{right}" y="{y}" text-anchor="end"></text>"#
                );
            }
            let _ = writeln!(svg, r#"<text id="about" class="about" x="{MARGIN}" y="{foot}"></text>"#);
        }
        Place::Page => {
            let _ = writeln!(svg, r#"<text class="quiet" x="{MARGIN}" y="14">{subtitle}</text>"#);
        }
    }
    legend(&mut svg, picture, head);
    svg.push_str(if place == Place::File {
        "<g id=\"boxes\" class=\"boxes\">\n"
    } else {
        "<g class=\"boxes\">\n"
    });
    for each in drawn {
        let x = MARGIN + each.start * inner;
        let y = head + (rows - 1 - each.depth) as f64 * ROW;
        let width = each.share * inner;
        let shade = shade_of(&each.name);
        let _ = write!(
            svg,
            r#"<g><title>{}&#10;{}</title><rect class="{} s{shade}" x="{x:.2}" y="{y:.1}" width="{:.2}" height="{:.1}" rx="1.5"/>"#,
            svg::text(&each.name),
            svg::text(&each.tooltip),
            each.class,
            // A hair of the page between two boxes.
            (width - 0.5).max(0.15),
            ROW - 1.0,
        );
        let letters = ((width - 6.0) / LETTER).max(0.0) as usize;
        let _ = writeln!(
            svg,
            r#"<text x="{:.2}" y="{:.1}">{}</text></g>"#,
            x + 3.0,
            y + 12.5,
            svg::text(&fitting(&each.name, letters))
        );
    }
    let _ = writeln!(svg, "</g>");
    if place == Place::File {
        // Nothing of the server's is in the script: it takes names from the titles.
        let _ = writeln!(svg, "<script><![CDATA[{SCRIPT}]]></script>");
    }
    let _ = writeln!(svg, "</svg>");
    svg
}

fn legend(svg: &mut String, picture: &Picture<'_>, head: f64) {
    let y = head - 16.0;
    let mut x = MARGIN;
    for (class, word) in &picture.legend {
        let _ = writeln!(
            svg,
            r#"<rect class="{class} s0" x="{x:.1}" y="{:.1}" width="11" height="11" rx="2"/><text class="quiet" x="{:.1}" y="{y:.1}">{}</text>"#,
            y - 9.5,
            x + 16.0,
            svg::text(word)
        );
        x += 16.0 + word.chars().count() as f64 * 6.4 + 16.0;
    }
}

/// As much of a name as so many letters hold; nothing where that is too little to read.
fn fitting(name: &str, letters: usize) -> String {
    if name.chars().count() <= letters {
        return name.to_owned();
    }
    if letters < FEWEST_LETTERS {
        return String::new();
    }
    let cut: String = name.chars().take(letters - 1).collect();
    format!("{cut}…")
}

/// Always the same for one name: FNV-1a.
fn shade_of(name: &str) -> u32 {
    let hash =
        name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash % SHADES
}

/// Colours as plain hexadecimal: renderers that know neither `hsl()` nor variables draw it too.
fn style(colours: &[Colour]) -> String {
    let shades = |lightness: fn(&Colour) -> f64, step: f64| {
        let mut css = String::new();
        for colour in colours {
            for shade in 0..SHADES {
                let lightness = lightness(colour) + step * f64::from(shade);
                let hue = colour.hue + 3.0 * f64::from(shade);
                let _ = write!(
                    css,
                    ".flame .{}.s{shade}{{fill:{}}}",
                    colour.class,
                    hex(hue, colour.saturation, lightness)
                );
            }
        }
        css
    };
    format!(
        ".flame text{{font:12px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#1d1d1f}}\
         .flame .title{{font:600 17px system-ui,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}}\
         .flame .quiet,.flame .button,.flame .about{{font:12px system-ui,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:#5f6068}}\
         .flame .about{{fill:#1d1d1f}}.flame .button{{cursor:pointer;fill:#2b63c6}}.flame .button:hover{{text-decoration:underline}}\
         .flame .page{{fill:#fff}}{}#boxes g{{cursor:pointer}}.flame .boxes text{{pointer-events:none}}\
         .flame .boxes g:hover rect{{stroke:#1d1d1f;stroke-width:1}}#boxes g.outer rect{{opacity:.45}}#boxes g.miss rect{{opacity:.28}}\
         #boxes g.hit rect{{stroke:#7a1fd1;stroke-width:1.6}}#boxes g.gone{{display:none}}\
         @media (prefers-color-scheme:dark){{.flame text{{fill:#ececf0}}.flame .quiet{{fill:#a3a4ad}}.flame .about{{fill:#ececf0}}\
         .flame .button{{fill:#8ab4ff}}.flame .page{{fill:#17181c}}{}.flame .boxes g:hover rect{{stroke:#fff}}#boxes g.hit rect{{stroke:#d7a6ff}}}}",
        shades(|colour| colour.light, 0.028),
        shades(|colour| colour.dark, 0.024),
    )
}

/// `hsl()` as `#rrggbb` (CSS Color Module Level 4, section 7.1).
fn hex(hue: f64, saturation: f64, lightness: f64) -> String {
    let part = |n: f64| {
        let k = (n + hue / 30.0).rem_euclid(12.0);
        let a = saturation * lightness.min(1.0 - lightness);
        let value = lightness - a * (k - 3.0).min(9.0 - k).clamp(-1.0, 1.0);
        (value.clamp(0.0, 1.0) * 255.0).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", part(0.0), part(8.0), part(4.0))
}

/// Zoom by click, search by regular expression, the full name below. ECMAScript 5, so that old browsers run it.
const SCRIPT: &str = include_str!("flame.js");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colour_is_what_css_says_it_is() {
        assert_eq!(hex(0.0, 1.0, 0.5), "#ff0000");
        assert_eq!(hex(120.0, 1.0, 0.25), "#008000");
        assert_eq!(hex(210.0, 0.5, 0.5), "#4080bf");
    }

    #[test]
    fn a_name_is_cut_to_its_box() {
        assert_eq!(fitting("dispatch_command", 40), "dispatch_command");
        assert_eq!(fitting("dispatch_command", 9), "dispatch…");
        assert_eq!(fitting("dispatch_command", 2), "");
    }

    #[test]
    fn the_script_does_not_end_its_own_element() {
        assert!(!SCRIPT.contains("]]>"));
    }
}
