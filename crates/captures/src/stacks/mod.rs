//! Stacks that somebody captured: by gdb, pt-pmp, eu-stack, systemd-coredump, perf.

use spindoctor_model::stack::Profile;

/// Stacks as a text has them.
#[derive(Debug, Clone, PartialEq)]
pub struct CapturedStacks {
    /// What wrote them, in words: `gdb`, `pt-pmp`.
    pub form: &'static str,
    /// The stacks, as a live server's profile holds them.
    pub profile: Profile,
    /// How many threads the text shows.
    pub threads: usize,
    /// Lines of the text that say nothing that was understood.
    pub lines_not_understood: usize,
}

/// The stacks that a text holds, where it holds any.
pub fn read(_text: &str) -> Option<CapturedStacks> {
    None
}
