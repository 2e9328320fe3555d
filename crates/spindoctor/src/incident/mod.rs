//! `spindoctor report`: an incident of a recording, on one page.

mod args;
mod changes;
#[cfg(test)]
pub mod examples;
mod html;
mod json;
mod loads;
mod loads_html;
mod loads_json;
mod numbers;
mod picture;
mod point;
mod run;
mod scope;
mod sentences;
mod settings;
mod statements;
mod text;
mod timeline;
mod unrecorded;
mod view;
mod words;

pub use args::Report;
pub use run::{in_every_form, pages, run};
