//! `spindoctor doctor`: a diagnosis of a server, and the formats of any diagnosis.

mod args;
mod captured;
mod early;
#[cfg(test)]
pub mod examples;
mod finding_text;
pub mod html;
pub mod json;
mod nagios;
mod run;
pub mod text;
pub mod view;

pub use args::Doctor;
pub use finding_text::finding_text;
pub use html::{acts, examined, finding, host, severity_class};
pub use run::{run, unknown};
pub use view::explained_here;
