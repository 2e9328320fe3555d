//! How results look, whatever they say: numbers with their units, text pages, HTML, CSV, JSON, charts. Pure: it reads nothing and knows no room.

pub mod chart;
pub mod csv;
pub mod html;
pub mod json;
pub mod number;
pub mod safe;
pub mod text;
