//! The charts as PNG: the SVG, drawn by resvg at twice its size with a font that is part of the program, so that the
//! picture is the same on a server that has no fonts.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

/// Sharp on the screens of today.
const SCALE: f32 = 2.0;

/// Why the charts could not be drawn.
#[derive(Debug, thiserror::Error)]
pub enum PngError {
    /// What we wrote is no SVG.
    #[error("the charts cannot be read: {0}")]
    Svg(#[from] resvg::usvg::Error),
    /// More pixels than there is memory for.
    #[error("the charts are too large for a picture")]
    TooLarge,
    /// The encoder.
    #[error("the picture cannot be written: {0}")]
    Encoding(String),
}

/// Draws the SVG. Titles are as light as the rest: a second font for them would be a fiftieth of the program.
pub fn render(svg: &str) -> Result<Vec<u8>, PngError> {
    let mut fonts = fontdb::Database::new();
    fonts.load_font_source(fontdb::Source::Binary(Arc::new(dejavu::sans::regular())));
    fonts.set_sans_serif_family("DejaVu Sans");
    let options =
        Options { font_family: "DejaVu Sans".to_owned(), fontdb: Arc::new(fonts), ..Options::default() };
    let tree = Tree::from_str(svg, &options)?;
    let size = tree.size().to_int_size().scale_by(SCALE).ok_or(PngError::TooLarge)?;
    let mut picture = Pixmap::new(size.width(), size.height()).ok_or(PngError::TooLarge)?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut picture.as_mut());
    picture.encode_png().map_err(|error| PngError::Encoding(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::sweep::{examples, svg};

    #[test]
    fn charts_become_a_picture_with_ink_where_text_stands() {
        // A picture takes seconds where nothing is optimised, and the charts themselves are looked at as SVG.
        for (name, sweep) in examples::all().into_iter().take(2) {
            let png = render(&svg::render(&(&sweep).into())).unwrap();
            let picture = Pixmap::decode_png(&png).unwrap();
            assert_eq!(picture.width(), 2_000, "{name}");
            // The title: without a font its place would be white.
            let ink = (40..90).flat_map(|y| (48..400).map(move |x| (x, y)));
            let dark =
                ink.filter(|(x, y)| picture.pixel(*x, *y).is_some_and(|pixel| pixel.red() < 100)).count();
            assert!(dark > 500, "{name}: {dark} dark pixels");
        }
    }
}
