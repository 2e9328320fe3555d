//! From addresses to names, files and lines.

use spindoctor_model::stack::Frame;

use crate::module::Modules;

/// Looks names up, once for each address.
#[derive(Debug, Default)]
pub struct Names {
    frames: Vec<Frame>,
}

impl Names {
    /// One that knows no name yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The frames at an address of the process: calls that were inlined there first, innermost first, the function
    /// itself last. Never empty.
    pub fn frames(&mut self, _modules: &mut Modules, address: u64, _is_return: bool) -> &[Frame] {
        self.frames = vec![Frame { address, name: "[unknown]".to_owned(), ..Frame::default() }];
        &self.frames
    }

    /// The kernel's function at an address; its [`Frame::module`] is none: the caller's `[kernel]`.
    pub fn kernel(&mut self, address: u64) -> Frame {
        Frame { address, name: "[kernel]".to_owned(), kernel: true, ..Frame::default() }
    }

    /// What a reader must know: `kernel names are hidden: ...`.
    pub fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}
