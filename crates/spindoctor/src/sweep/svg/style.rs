//! The styles of a chart: a colour for each line, and the look of everything else, light and dark.

use std::fmt::Write as _;

/// Colours that differ for most kinds of colour blindness (after Okabe and Ito), on white and on black.
const COLOURS: [(&str, &str); 8] = [
    ("#1f6fb4", "#6db3f2"),
    ("#cc5a1d", "#f2965e"),
    ("#1d8a5f", "#5fcf9f"),
    ("#8a4fae", "#c897ea"),
    ("#a57c00", "#e3bd4a"),
    ("#c23a6b", "#f07fa8"),
    ("#2b8f9c", "#67cfdb"),
    ("#5d646d", "#adb5be"),
];

/// The page shows the narrow picture where the wide one would have to be shrunk too far to be read. Paper has fine dots.
pub(super) const ONE_OF_BOTH: &str = "\
.picture svg.sweep{min-width:0}.picture svg.narrow{display:none}\
@media screen and (max-width:52rem){.picture svg.sweep{display:none}.picture svg.narrow{display:block;max-width:32rem}}";

/// The class of a line of this colour.
pub(super) fn class(at: usize) -> String {
    format!("s{at}")
}

/// A colour for each line: the first eight by hand, then shades from blue to red, in order.
pub(super) fn line_styles(count: usize) -> String {
    let mut light = String::new();
    let mut dark = String::new();
    for at in 0..count {
        let (on_white, on_black) = match COLOURS.get(at).filter(|_| count <= COLOURS.len()) {
            Some((on_white, on_black)) => ((*on_white).to_owned(), (*on_black).to_owned()),
            None => {
                let hue = 250.0 - 250.0 * at as f64 / (count - 1).max(1) as f64;
                (rgb(hue, 0.62, 0.42), rgb(hue, 0.62, 0.68))
            }
        };
        for (out, colour) in [(&mut light, on_white), (&mut dark, on_black)] {
            let _ = write!(
                out,
                ".sweep .s{at}{{stroke:{colour}}}.sweep .mark.s{at},.sweep .name.s{at}{{fill:{colour}}}"
            );
        }
    }
    format!("{light}@media (prefers-color-scheme:dark){{{dark}}}")
}

/// Hue in degrees, saturation and lightness from 0 to 1, as `#rrggbb`.
fn rgb(hue: f64, saturation: f64, lightness: f64) -> String {
    let chroma = saturation * lightness.min(1.0 - lightness);
    let channel = |n: f64| {
        let k = (n + hue / 30.0) % 12.0;
        let value = lightness - chroma * (k - 3.0).min(9.0 - k).clamp(-1.0, 1.0);
        (value * 255.0).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", channel(0.0), channel(8.0), channel(4.0))
}

/// The look of a chart but for its lines' colours.
pub(super) const STYLE: &str = "\
.sweep text{font:12px system-ui,-apple-system,'Segoe UI','Noto Sans','DejaVu Sans',sans-serif;fill:#1f2328}\
.sweep .title{font-size:17px;font-weight:600}.sweep .heading{font-size:13px;font-weight:600}\
.sweep .quiet{fill:#656d76;font-weight:400}.sweep tspan.quiet{font-size:12px}\
.sweep .number{text-anchor:end;font-size:11px;fill:#656d76}.sweep .clients{text-anchor:middle;font-size:11px;fill:#656d76}\
.sweep .page{fill:#fff}.sweep .grid{stroke:#e6e6e2;stroke-width:1}.sweep .axis{stroke:#9aa0a6;stroke-width:1}\
.sweep .line{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}\
.sweep .dashed{stroke-dasharray:7 4}\
.sweep .mark{stroke:#fff;stroke-width:1}.sweep .bar{fill:none;stroke-width:1.2;opacity:.75}\
.sweep .fit{fill:none;stroke-width:1.3;stroke-dasharray:5 4;opacity:.6}.sweep .ring{fill:none;stroke-width:1.5;opacity:.8}\
.sweep .lead{fill:none;stroke-width:.8;opacity:.45}.sweep .name{stroke:none;font-weight:600}\
@media (prefers-color-scheme:dark){.sweep text{fill:#e4e6e8}.sweep .quiet,.sweep .number,.sweep .clients{fill:#98a0a9}\
.sweep .page{fill:#14171a}.sweep .grid{stroke:#2e343a}.sweep .axis{stroke:#6b737b}.sweep .mark{stroke:#14171a}}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_go_from_blue_to_red() {
        assert_eq!(
            [rgb(0.0, 1.0, 0.5), rgb(120.0, 1.0, 0.25), rgb(240.0, 1.0, 0.5)],
            ["#ff0000", "#008000", "#0000ff"]
        );
    }
}
