//! The program. What it does is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    spindoctor::run()
}
