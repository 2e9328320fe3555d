//! `spindoctor mcp`: answers for an assistant, by the Model Context Protocol over standard input and output.
//!
//! ```text
//! request -> Tool -> command line -> the room that answers it -> its JSON, made short enough -> answer
//! ```
//!
//! What is asked becomes the command line that a person would write, so every limit of a command is in force. Nothing is changed:
//! the list of [`tools`] has only commands that read, of the server that was named when this began and of the recordings that
//! were named then. One question is answered at a time.

mod args;
mod bounded;
mod events;
mod run;
mod tools;

pub use args::Mcp;
pub use run::run;
