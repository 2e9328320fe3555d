//! The registers that a walk of a stack begins with.

/// What a thread's user-space registers held, on x86-64 and aarch64 alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Registers {
    /// The next instruction: rip, pc.
    pub pc: u64,
    /// The stack pointer: rsp, sp.
    pub sp: u64,
    /// The frame pointer: rbp, x29. A source that cannot read it says `None`.
    pub fp: Option<u64>,
    /// The return address of a leaf function: x30. None on x86-64.
    pub lr: Option<u64>,
}
