//! What a statement's text says, without running it and without a grammar.
//!
//! In: a text as a server, a capture or a user gives it, perhaps cut anywhere. Out: its [`tokens`], its [`shape()`] without
//! literals, its [`digest`], a [`definition`] without literals, its [`first_table`], the columns that it compares ([`conditions`]), the
//! [`tags()`] in its comments, what it is for ([`purpose`]), whether it only reads ([`reading`]), and whether it may be explained
//! ([`select`]).
//! Pure: no I/O, no server.
//!
//! Every command takes statements apart with these functions, so that one statement looks the same everywhere, and no literal
//! is shown by one command that another hides.
//!
//! # The rule for literals
//!
//! Where a backslash or a double quote stands for different things under different `sql_mode`s, the mode of the session that
//! ran the statement is not known: a session sets it for itself. So whatever is a literal under *one* of the modes is hidden
//! ([`Mode::UNKNOWN`]); where the modes disagree about where a literal ends, everything behind is hidden. What is cut within a
//! literal, a name or a comment is hidden too. Comments are never part of a shape: they may hold a customer's values.

pub mod conditions;
pub mod definition;
pub mod mode;
pub mod purpose;
pub mod reading;
pub mod select;
pub mod shape;
pub mod table;
pub mod tags;
pub mod tokens;
pub mod values;

pub use conditions::compared_columns;
pub use definition::definition_without_literals;
pub use mode::{Backslash, DoubleQuotes, Mode};
pub use purpose::{
    aggregates, begins_with, changes_without_sleep, deletes_a_table, has_text, inserts_values,
    is_about_the_server, is_of_dump, locks_rows, locks_the_server, may_use_a_table, names, user_lock,
    wants_a_table,
};
pub use reading::{NotReading, check_reads};
pub use select::Select;
pub use shape::{comparable, digest, kind, server_digest, shape};
pub use table::{first_table, qualified_table};
pub use tags::tags;
pub use tokens::{End, Kind, Lexed, Token, lex};
pub use values::{error_without_values, record_without_texts, sentence_without_quotes};

/// Stands between the beginning and the end of a text of which the middle was left out.
///
/// Only what stands before it is read as a statement: where a literal was cut, the rest would be read inside out.
pub const CUT: &str = "/*[...]*/";

/// A text as a literal of a statement: `o'x` as `'o''x'`. A backslash is doubled, which is one too many under
/// `NO_BACKSLASH_ESCAPES`, and never ends the literal.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// A text without what stands behind its first [`CUT`].
pub fn head(text: &str) -> &str {
    text.split_once(CUT).map_or(text, |(head, _)| head)
}
