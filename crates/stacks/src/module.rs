//! The files that a process runs code from.
//!
//! In: `/proc/PID/maps` and what it names. Out: which file an address lies in, where in that file, and bytes.

use spindoctor_model::stack;

use crate::error::Result;

/// The code of one process.
#[derive(Debug)]
pub struct Modules {
    pid: u32,
}

impl Modules {
    /// Reads which files the process has mapped; opens none of them yet.
    ///
    /// # Errors
    /// Where the process is gone, its maps may not be read, or it is not a 64-bit program.
    pub fn of(pid: u32) -> Result<Self> {
        Ok(Self { pid })
    }

    /// Whose they are.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Reads the maps again: libraries come and go. True where something is new.
    ///
    /// # Errors
    /// Where the process is gone.
    pub fn refresh(&mut self) -> Result<bool> {
        Ok(false)
    }

    /// Instructions at an address, from the file or from the process; none where there is no code.
    pub fn code(&mut self, _address: u64, _len: usize) -> Option<Vec<u8>> {
        None
    }

    /// Every module so far, in the order that [`stack::Frame::module`] counts them: the list only grows.
    pub fn described(&self) -> Vec<stack::Module> {
        Vec::new()
    }
}
