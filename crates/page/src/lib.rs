//! The look of results: numbers with their units, pages of text, HTML, CSV, JSON, charts, and the escaping that a text
//! needs before a terminal, a browser, graphviz or a spreadsheet gets it.
//!
//! Pure: it reads nothing and knows no command. The content comes from the program's rooms.

pub mod ascii;
pub mod chart;
pub mod csv;
pub mod dot;
pub mod formats;
pub mod html;
pub mod json;
pub mod safe;
pub mod svg;
pub mod text;

pub use spindoctor_model::number;
