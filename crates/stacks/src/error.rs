//! The reasons why there is no snapshot.

use std::io;
use std::path::PathBuf;

/// What can go wrong before a process can be looked at, each with what to do about it. What goes wrong with
/// one thread is a [`spindoctor_model::stack::StackEnd`], not an error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The process does not exist, or ended meanwhile.
    #[error("there is no process {0}: it ended, or --pid is wrong")]
    NoProcess(u32),
    /// The process is there, and no stacks can come of it.
    #[error("process {pid} cannot be profiled: {because}")]
    NotProfilable {
        /// Its id.
        pid: u32,
        /// Why not: `it runs 32-bit code, and only 64-bit code can be profiled`.
        because: String,
    },
    /// A file of `/proc` or an ELF file could not be read.
    #[error("cannot read {}: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the kernel said.
        error: io::Error,
    },
    /// A file that should hold a profile does not.
    #[error("{} {because}", path.display())]
    ProfileFile {
        /// Which.
        path: PathBuf,
        /// What it is instead: `is not a profile; ...`.
        because: String,
    },
    /// The source cannot be used here.
    #[error("the {source_name} source cannot be used: {because}; {unlock}")]
    Unavailable {
        /// `bpf`.
        source_name: &'static str,
        /// Why not: `the kernel has no BTF`.
        because: String,
        /// What would change that: `run as root, or grant CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE`.
        unlock: String,
    },
}

/// The results of this crate.
pub type Result<T> = std::result::Result<T, Error>;
