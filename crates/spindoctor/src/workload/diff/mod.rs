//! `workload --diff`: how the statements of one time differ from those of another.
//!
//! ```text
//! operand -> recording, captured file, saved span, live server -> Span \
//!                                                                 Span -> Changes -> text, JSON
//! ```

mod json;
pub mod operand;
mod run;
pub mod saved;
mod text;

pub use json::value;
pub use run::run;
pub use text::in_few_words;
