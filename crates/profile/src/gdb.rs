//! As gdb's `thread apply all bt` prints a process, one snapshot after another, so that scripts made for gdb work.
//!
//! gdb's own words, of a process whose threads it knows by their kernel ids only:
//!
//! ```text
//! Thread 42 (LWP 3772082 "connection"):
//! #0  0x00007f2763f18bcf in poll () from /lib/x86_64-linux-gnu/libc.so.6
//! #1  os_event::wait () at os0event.cc:185
//! ```
//!
//! Addresses are those of the file, not of the process: a profile knows no other. CPU samples are printed as if each
//! were a thread. Kernel frames, which gdb does not see, are left out.

use std::fmt::Write as _;

use spindoctor_model::stack::{Frame, Observation, StackEnd};

use super::view::View;
use spindoctor_page::safe::safe;

/// Every snapshot, the threads with the highest number first.
pub fn render(view: &View<'_>) -> String {
    let mut text = String::new();
    for snapshot in view.observations.chunk_by(|a, b| a.snapshot == b.snapshot) {
        for (number, seen) in snapshot.iter().enumerate().rev() {
            thread(&mut text, view, number + 1, seen);
        }
    }
    text
}

fn thread(text: &mut String, view: &View<'_>, number: usize, seen: &Observation) {
    let thread = &view.profile.threads[seen.thread as usize];
    let name = safe(&thread.name).replace('"', "'");
    let _ = writeln!(text, "\nThread {number} (LWP {} \"{name}\"):", thread.tid);
    for (at, frame) in view.frames(seen.stack).filter(|frame| !frame.kernel).enumerate() {
        line(text, view, at, frame);
    }
    match &view.profile.stacks[seen.stack as usize].end {
        StackEnd::Root => {}
        StackEnd::Cut(why) => {
            let _ = writeln!(text, "Backtrace stopped: {}", safe(why));
        }
        // gdb has no word for it; its own lines that begin so are passed over by every script.
        StackEnd::None(why) => {
            let _ = writeln!(text, "Backtrace stopped: no stack: {}", safe(why));
        }
    }
}

fn line(text: &mut String, view: &View<'_>, at: usize, frame: &Frame) {
    // gdb prints `??` where it knows no name.
    let name = match view.name(frame) {
        "[unknown]" => "??".to_owned(),
        name => safe(name),
    };
    let _ = write!(text, "#{at:<3}");
    // An inlined call has no address of its own, and gdb prints none.
    if !frame.inlined {
        let _ = write!(text, "0x{:016x} in ", frame.address);
    }
    // A full name has its arguments already.
    let _ = write!(text, "{name}{}", if name.ends_with(')') { "" } else { " ()" });
    let module = frame.module.map(|module| view.profile.modules[module as usize].path.as_str());
    match (&frame.location, module) {
        (Some((file, line)), _) => {
            let _ = write!(text, " at {}:{line}", safe(file));
        }
        // gdb names the library of a frame without debug information, never the program itself.
        (None, Some(path)) if path != view.profile.process.program => {
            let _ = write!(text, " from {}", safe(path));
        }
        _ => {}
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::examples;
    use crate::view::Choice;

    #[test]
    fn a_snapshot_looks_as_gdb_prints_it() {
        let profile = examples::busy();
        let text = render(&View::new(&profile, &Choice::default()).unwrap());
        let first: Vec<&str> = text.split("\nThread 4 ").take(2).collect();
        insta::assert_snapshot!(first.join("\nThread 4 "));
    }
}
