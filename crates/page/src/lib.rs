//! How results look, whatever they say: numbers with their units, pages of text, HTML, CSV, JSON, charts, and what a text
//! must be made into before a terminal, a browser, graphviz or a spreadsheet is given it.
//!
//! Pure: it reads nothing, and it knows no command. What is said stands in the program's rooms.

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
