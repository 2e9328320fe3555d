//! From registers and a copied stack to the addresses of the calls on it.

use spindoctor_model::stack::StackEnd;

use crate::module::Modules;
use crate::registers::Registers;

/// Walks stacks, and remembers the rule of every address it walked over.
#[derive(Debug, Default)]
pub struct Unwinder {}

impl Unwinder {
    /// One that knows no rule yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Walks one stack. `bytes` were copied from `stack_start` upwards; `whole` says that they reach the end of
    /// the stack. `out` is emptied and gets the pc, then return addresses: look those up at the address less one.
    pub fn walk(
        &mut self,
        _modules: &mut Modules,
        registers: &Registers,
        _stack_start: u64,
        _bytes: &[u8],
        _whole: bool,
        out: &mut Vec<u64>,
    ) -> StackEnd {
        out.clear();
        out.push(registers.pc);
        StackEnd::Cut("not walked".to_owned())
    }

    /// Places in the `out` of the last walk that are not return addresses though they are not the first: what
    /// a signal interrupted. Look these up as they are.
    pub fn interrupted(&self) -> &[usize] {
        &[]
    }
}
